"""What comes of compiling a playbook."""

from __future__ import annotations

from dataclasses import dataclass

from noetl_compiler.diagnostics import Diagnostic
from noetl_compiler.graph import Graph
from noetl_compiler.source import SourceFile

__all__ = ["Result"]


@dataclass(frozen=True, slots=True)
class Result:
    """``graph`` is None when any diagnostic is an error. Diagnostics are in reading order. ``source`` is the text that
    was read, empty when it could not be.
    """

    graph: Graph | None
    diagnostics: tuple[Diagnostic, ...]
    source: SourceFile
