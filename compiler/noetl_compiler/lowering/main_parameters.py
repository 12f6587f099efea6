"""Bind the names that the Python code of a task reads and its input lacks, if the task sees them (semantics.md 39)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from noetl_compiler import syntax
from noetl_compiler.graph import Value
from noetl_compiler.lowering.expressions import template_mapping
from noetl_compiler.python_code import parse_code
from noetl_compiler.value_merge import mapping_of, overlay

__all__ = ["CodeNames", "bind_read_names", "code_names"]

_WHOLE_INPUT = frozenset({"context", "input_data", "args", "data"})
"""Parameters of ``main`` that receive the whole input."""


class CodeNames(msgspec.Struct, frozen=True):
    """The names that code may read: those of the workload, and of the other steps."""

    workload: frozenset[str]
    steps: frozenset[str]

    def sees(self, name: str, step: syntax.Step) -> bool:
        """Whether the code of a step sees this name; the items of its loop are names too."""
        is_other_step = name in self.steps and name != step.name.text
        return name not in _WHOLE_INPUT and (name in self.workload or is_other_step or name == element_of(step))


def code_names(playbook: syntax.Playbook) -> CodeNames:
    """Return the names that the code of a playbook may read."""
    return CodeNames(frozenset(mapping_of(playbook.workload)), frozenset(step.name.text for step in playbook.steps))


def element_of(step: syntax.Step) -> str | None:
    """Return the name of the items of the step's loop; None without a loop."""
    return step.loop.element.text if step.loop else None


def bind_read_names(task: syntax.Task, inherited_input: Value, step: syntax.Step, names: CodeNames) -> syntax.Task:
    """Add to the input of a task the names that its code reads: the parameters of ``main`` that are in ``names``, and
    the elements of loops that it reads from ``context``.
    """
    code = mapping_of(task.config).get("code") if task.kind.text == "python" else None
    if not isinstance(code, str) or isinstance(task.input.data, str) or isinstance(inherited_input.data, str):
        return task
    if "main" not in code and "context" not in code:
        return task
    tree = parse_code(code)
    if not isinstance(tree, ast.Module):
        return task
    bound_names = mapping_of(inherited_input).keys() | mapping_of(task.input).keys()
    parameters = (name for name in _required_parameters(tree) if names.sees(name, step))
    read_names = dict.fromkeys([*parameters, *_names_read_from_context(tree, element_of(step))])
    missing = [name for name in read_names if name not in bound_names]
    if not missing:
        return task
    bindings = template_mapping({name: name for name in missing}, task.span)
    return replace(task, input=overlay(bindings, task.input))


def _required_parameters(tree: ast.Module) -> list[str]:
    """Return the parameters of ``main`` without a default."""
    mains = [
        node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == "main"
    ]
    if not mains:
        return []
    signature = mains[-1].args
    positional = [*signature.posonlyargs, *signature.args]
    required = positional[: len(positional) - len(signature.defaults)]
    keyword_only = [
        argument
        for argument, default in zip(signature.kwonlyargs, signature.kw_defaults, strict=True)
        if default is None
    ]
    return [argument.arg for argument in (*required, *keyword_only)]


def _names_read_from_context(tree: ast.Module, element: str | None) -> Iterator[str]:
    """Yield the element of the loop for each ``context.get("item")`` and ``context["item"]``."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "get"
            and node.args
        ):
            owner, key = node.func.value, node.args[0]
        elif isinstance(node, ast.Subscript):
            owner, key = node.value, node.slice
        else:
            continue
        if (
            isinstance(owner, ast.Name)
            and owner.id == "context"
            and isinstance(key, ast.Constant)
            and key.value == element
        ):
            yield str(key.value)
