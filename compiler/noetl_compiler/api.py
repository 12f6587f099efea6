"""The functions that compile a playbook: text in, graph and diagnostics out.

The phases (phases.py) are imported when something is compiled, so that importing this module is fast.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from noetl_compiler.diagnostics import Diagnostic, Severity, one_line, sort_and_dedupe
from noetl_compiler.gc_pause import CollectorPause
from noetl_compiler.graph import Graph
from noetl_compiler.source import SourceFile

if TYPE_CHECKING:
    from noetl_compiler.language.tool_description import Tools

__all__ = ["CompileError", "Result", "compile_file", "compile_or_raise", "compile_text"]


class Result(msgspec.Struct, frozen=True):
    """The result of compiling a playbook.

    ``graph`` is None when any diagnostic is an error. Diagnostics are in reading order. ``source`` is the text of
    the playbook, empty if it could not be read; ``scripts`` are the fetched scripts, to which diagnostics may refer.
    """

    graph: Graph | None
    diagnostics: tuple[Diagnostic, ...]
    source: SourceFile
    scripts: tuple[SourceFile, ...] = ()

    def source_of(self, diagnostic: Diagnostic) -> SourceFile:
        """Return the source that the span of a diagnostic refers to."""
        return next((script for script in self.scripts if script.file == diagnostic.file), self.source)


class CompileError(ValueError):
    """The playbook has errors; ``diagnostics`` has them, and the warnings."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        errors = (diagnostic for diagnostic in diagnostics if diagnostic.severity is Severity.ERROR)
        super().__init__("\n".join(one_line(diagnostic) for diagnostic in errors))
        self.diagnostics = diagnostics


def compile_text(text: str, file: str = "<text>", tools: Tools | None = None) -> Result:
    """Compile a playbook's text; ``file`` is its name in diagnostics. Never raises, whatever the text.

    ``tools`` are the kinds of tools that it may call, by default those of NoETL. To add those of installed packages,
    pass ``noetl_activities.installed_tools.installed_tools()``.
    """
    from noetl_compiler.phases import compile_parsed, parse_playbook

    with CollectorPause():
        return compile_parsed(parse_playbook(SourceFile(file, text), tools))


def compile_file(path: str | Path, tools: Tools | None = None) -> Result:
    """Compile the file of a playbook, as ``compile_text`` does. A file that cannot be read is a diagnostic."""
    from noetl_compiler.phases import compile_parsed, parse_playbook
    from noetl_compiler.reader import read_file

    with CollectorPause():
        source, errors = read_file(Path(path))
        return (
            Result(None, sort_and_dedupe(errors), source) if errors else compile_parsed(parse_playbook(source, tools))
        )


def compile_or_raise(text: str, file: str = "<text>", tools: Tools | None = None) -> Graph:
    """Return the graph of a playbook's text. Raises :class:`CompileError` when it has errors."""
    result = compile_text(text, file, tools)
    if result.graph is None:
        raise CompileError(result.diagnostics)
    return result.graph
