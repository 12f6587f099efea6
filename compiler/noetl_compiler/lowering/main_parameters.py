"""Names that Python code reads and that nothing binds: the code gets those that the task sees (semantics.md 39)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from noetl_compiler import syntax
from noetl_compiler.graph import Value
from noetl_compiler.graph.contents import pointer
from noetl_compiler.python_code import parsed
from noetl_compiler.value_merge import names_in, overlay

__all__ = ["CodeNames", "code_names", "with_asked_names"]

_WHOLE = frozenset({"context", "input_data", "args", "data"})
"""Parameters of ``main`` that take everything."""


class CodeNames(msgspec.Struct, frozen=True):
    """The names that code may read: those of the workload, and of the other steps."""

    workload: frozenset[str]
    steps: frozenset[str]

    def sees(self, name: str, step: syntax.Step) -> bool:
        """Whether the code of a step sees this name; the items of its loop are names too."""
        is_other_step = name in self.steps and name != step.name.text
        return name not in _WHOLE and (name in self.workload or is_other_step or name == element_of(step))


def code_names(playbook: syntax.Playbook) -> CodeNames:
    """The names of a playbook, for all of its steps."""
    return CodeNames(frozenset(names_in(playbook.workload)), frozenset(step.name.text for step in playbook.steps))


def element_of(step: syntax.Step) -> str | None:
    """Return the name of the items of its loop."""
    return step.loop.element.text if step.loop else None


def with_asked_names(task: syntax.Task, given: Value, step: syntax.Step, names: CodeNames) -> syntax.Task:
    """Add to the input of a task the names that its code reads: the parameters of ``main`` that are in ``names``, and
    the elements of loops that it reads from ``context``.
    """
    code = names_in(task.config).get("code") if task.kind.text == "python" else None
    if not isinstance(code, str) or isinstance(task.input.data, str) or isinstance(given.data, str):
        return task
    if "main" not in code and "context" not in code:
        return task
    tree = parsed(code)
    if not isinstance(tree, ast.Module):
        return task
    bound = names_in(given).keys() | names_in(task.input).keys()
    parameters = (name for name in _parameters(tree) if names.sees(name, step))
    asked = dict.fromkeys([*parameters, *_names_read_from_context(tree, element_of(step))])
    missing = [name for name in asked if name not in bound]
    if not missing:
        return task
    found = Value({name: f"{{{{ {name} }}}}" for name in missing}, {pointer("", name): task.span for name in missing})
    return replace(task, input=overlay(found, task.input))


def _parameters(tree: ast.Module) -> list[str]:
    """Those of ``main`` that need a value."""
    mains = [one for one in tree.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.name == "main"]
    if not mains:
        return []
    given = mains[-1].args
    needed = given.args[: len(given.args) - len(given.defaults)]
    keyword = [one for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True) if default is None]
    return [one.arg for one in (*needed, *keyword)]


def _names_read_from_context(tree: ast.Module, element: str | None) -> Iterator[str]:
    """``context.get("item")``, ``context["item"]``."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "get"
            and node.args
        ):
            of, key = node.func.value, node.args[0]
        elif isinstance(node, ast.Subscript):
            of, key = node.value, node.slice
        else:
            continue
        if isinstance(of, ast.Name) and of.id == "context" and isinstance(key, ast.Constant) and key.value == element:
            yield str(key.value)
