"""What others call: text in, graph and diagnostics out.

The phases themselves (phases.py) are imported when something is compiled, so that a program which only mentions the
compiler starts fast.
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

    ``graph`` is None when any diagnostic is an error. Diagnostics are in reading order. ``source`` is the text that
    was read, empty when it could not be; ``scripts`` are the texts that were fetched for it, of which findings may be.
    """

    graph: Graph | None
    diagnostics: tuple[Diagnostic, ...]
    source: SourceFile
    scripts: tuple[SourceFile, ...] = ()

    def source_of(self, found: Diagnostic) -> SourceFile:
        """Return the source that the span of a diagnostic refers to."""
        return next((one for one in self.scripts if one.file == found.file), self.source)


class CompileError(ValueError):
    """The playbook has errors; ``diagnostics`` has all that was found, warnings too."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        errors = (found for found in diagnostics if found.severity is Severity.ERROR)
        super().__init__("\n".join(one_line(found) for found in errors))
        self.diagnostics = diagnostics


def compile_text(text: str, file: str = "<text>", tools: Tools | None = None) -> Result:
    """Compile a playbook's text; ``file`` is how diagnostics call it. Never raises, whatever the text.

    ``tools`` are the kinds that it may call, by default those that NoETL knows; those of installed packages are among
    ``noetl_activities.installed_tools.installed_tools()``.
    """
    from noetl_compiler.phases import lowered, parse_playbook

    with CollectorPause():
        return lowered(parse_playbook(SourceFile(file, text), tools))


def compile_file(path: str | Path, tools: Tools | None = None) -> Result:
    """Compile a playbook's file, as ``compile_text``. A file that cannot be read is a diagnostic."""
    from noetl_compiler.phases import lowered, parse_playbook
    from noetl_compiler.reader import read_file

    with CollectorPause():
        source, unreadable = read_file(Path(path))
        return (
            Result(None, sort_and_dedupe(unreadable), source) if unreadable else lowered(parse_playbook(source, tools))
        )


def compile_or_raise(text: str, file: str = "<text>", tools: Tools | None = None) -> Graph:
    """Return the graph of a playbook's text. Raises :class:`CompileError` when it has errors."""
    result = compile_text(text, file, tools)
    if result.graph is None:
        raise CompileError(result.diagnostics)
    return result.graph
