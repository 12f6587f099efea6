"""Give Python tasks that import the package of older NoETL what they read: variables of the run, and a credential."""

from __future__ import annotations

import ast

from noetl_compiler import syntax
from noetl_compiler.graph import Value
from noetl_compiler.language.names import CREDENTIALS_MODULE, VARS_CACHE, VARS_FIELD, VARS_MODULE
from noetl_compiler.lowering.expressions import template_mapping
from noetl_compiler.python_code import parse_code
from noetl_compiler.value_merge import mapping_of, overlay

__all__ = ["config_for_older_package"]


def config_for_older_package(task: syntax.Task) -> tuple[Value, Value | None]:
    """Return the config and auth of a task, with what its code needs if it imports the older package."""
    code = mapping_of(task.config).get("code") if task.kind.text == "python" else None
    if not isinstance(code, str):
        return task.config, task.auth
    config, auth = task.config, task.auth
    if VARS_MODULE in code:
        config = overlay(config, template_mapping({VARS_FIELD: VARS_CACHE}, task.span))
    if auth is None and CREDENTIALS_MODULE in code:
        auth = _find_credential(code, task)
    return config, auth


def _find_credential(code: str, task: syntax.Task) -> Value | None:
    """Return the credential that the code names, by a string constant or by a name of its input."""
    tree = parse_code(code)
    for node in ast.walk(tree) if isinstance(tree, ast.Module) else ():
        if isinstance(node, ast.Call) and node.args and _function_name(node.func).startswith(CREDENTIALS_MODULE):
            argument = node.args[0]
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                return Value(argument.value)
            if isinstance(argument, ast.Name) and argument.id in mapping_of(task.input):
                return Value(f"{{{{ input[{argument.id!r}] }}}}", {"": task.span})
    return None


def _function_name(function: ast.expr) -> str:
    return (
        function.id if isinstance(function, ast.Name) else function.attr if isinstance(function, ast.Attribute) else ""
    )
