"""Names that Python code asks for and nobody binds: it gets those that the task sees (semantics.md 39)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec.structs import replace

from noetl_compiler import syntax
from noetl_compiler.graph import Value
from noetl_compiler.graph.contents import pointer
from noetl_compiler.python_code import parsed
from noetl_compiler.value_merge import names_in, overlay

__all__ = ["seen_by_code", "with_asked_names"]

_WHOLE = frozenset({"context", "input_data", "args", "data"})
"""Parameters of ``main`` that take everything."""


def seen_by_code(playbook: syntax.Playbook, step: syntax.Step) -> frozenset[str]:
    """The names of the workload, of the other steps, and of the items of the step's loop."""
    items = [step.loop.element.text] if step.loop else []
    steps = (other.name.text for other in playbook.steps if other is not step)
    return frozenset([*names_in(playbook.workload), *steps, *items]) - _WHOLE


def with_asked_names(task: syntax.Task, given: Value, seen: frozenset[str], items: frozenset[str]) -> syntax.Task:
    """The task with its input, and what its ``main`` or its ``context`` asks for: of ``seen`` a parameter, of ``items``
    what it takes out of the context.
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
    asked = dict.fromkeys([*(name for name in _parameters(tree) if name in seen), *_of_context(tree, items)])
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


def _of_context(tree: ast.Module, items: frozenset[str]) -> Iterator[str]:
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
        if isinstance(of, ast.Name) and of.id == "context" and isinstance(key, ast.Constant) and key.value in items:
            yield str(key.value)
