"""Compiles NoETL playbooks to a graph. It uses no clock, no network and nothing of Temporal.

    result = compile_file("playbook.yaml")
    for diagnostic in result.diagnostics:
        print(diagnostic)  # playbook.yaml:12:15: error[NT203]: unknown step "fetc"
    if result.graph is not None:
        print(list(result.graph.steps))

The package ``graph`` describes the fields of ``Graph``, and codes.md what each ``Code`` means.

The names below are imported when they are first used, because many importers need only one of the modules.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from noetl_compiler.api import CompileError, Result, compile_file, compile_or_raise, compile_text
    from noetl_compiler.codes import Code
    from noetl_compiler.diagnostics import Diagnostic, Severity
    from noetl_compiler.graph import Graph

__all__ = [
    "Code",
    "CompileError",
    "Diagnostic",
    "Graph",
    "Result",
    "Severity",
    "compile_file",
    "compile_or_raise",
    "compile_text",
]

_MODULE_OF = {
    "Code": "codes",
    "Diagnostic": "diagnostics",
    "Graph": "graph",
    "Severity": "diagnostics",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF.get(name, 'api')}"), name)
