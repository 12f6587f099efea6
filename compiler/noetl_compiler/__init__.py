"""Compiles NoETL playbooks to a graph. Pure: no clock, no network, nothing of Temporal.

    result = compile_file("playbook.yaml")
    for found in result.diagnostics:
        print(found)  # playbook.yaml:12:15: error[NT203]: unknown step "fetc"
    if result.graph is not None:
        print(list(result.graph.steps))

``Graph`` describes each of its fields in the package graph, ``Code`` what each finding means in codes.md.

The names below are loaded when first asked for, because many importers only want one of the modules.
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

_ELSEWHERE = {
    "Code": "codes",
    "Diagnostic": "diagnostics",
    "Graph": "graph",
    "Severity": "diagnostics",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_ELSEWHERE.get(name, 'api')}"), name)
