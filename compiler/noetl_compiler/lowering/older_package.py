"""Python tasks that import the package of older NoETL get the variables of the run and the credential they name."""

from __future__ import annotations

import ast

from noetl_compiler import syntax
from noetl_compiler.graph import Span, Value
from noetl_compiler.graph.contents import pointer
from noetl_compiler.language.names import CREDENTIALS_MODULE, VARS_CACHE, VARS_FIELD, VARS_MODULE
from noetl_compiler.python_code import parsed
from noetl_compiler.value_merge import names_in, overlay

__all__ = ["with_older_package"]


def with_older_package(task: syntax.Task) -> tuple[Value, Value | None]:
    """Return the config and auth of a task, with what its code needs if it imports the older package."""
    code = names_in(task.config).get("code") if task.kind.text == "python" else None
    if not isinstance(code, str):
        return task.config, task.auth
    config, auth = task.config, task.auth
    if VARS_MODULE in code:
        config = overlay(config, _template(VARS_FIELD, VARS_CACHE, task.span))
    if auth is None and CREDENTIALS_MODULE in code:
        auth = _named_credential(code, task)
    return config, auth


def _named_credential(code: str, task: syntax.Task) -> Value | None:
    """Return the credential that the code names, by a text or by a name of its input."""
    tree = parsed(code)
    for node in ast.walk(tree) if isinstance(tree, ast.Module) else ():
        if isinstance(node, ast.Call) and node.args and _called(node.func).startswith(CREDENTIALS_MODULE):
            first = node.args[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                return Value(first.value)
            if isinstance(first, ast.Name) and first.id in names_in(task.input):
                return Value(f"{{{{ input[{first.id!r}] }}}}", {"": task.span})
    return None


def _called(function: ast.expr) -> str:
    return (
        function.id if isinstance(function, ast.Name) else function.attr if isinstance(function, ast.Attribute) else ""
    )


def _template(name: str, expression: str, span: Span) -> Value:
    return Value({name: f"{{{{ {expression} }}}}"}, {pointer("", name): span})
