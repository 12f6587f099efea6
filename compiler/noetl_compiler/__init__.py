"""Compiles NoETL playbooks to a graph. Pure: no clock, no network, nothing of Temporal.

    result = compile_file("playbook.yaml")
    result.graph, result.diagnostics

The names below are loaded when first asked for, because most importers only want the graph's types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from noetl_compiler.pipeline import CompileError, Result, compile_file, compile_or_raise, compile_text

__all__ = ["CompileError", "Result", "compile_file", "compile_or_raise", "compile_text"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from noetl_compiler import pipeline

    return getattr(pipeline, name)
