"""Read the playbooks that a command registers in the catalog: all of them, or none if one has errors.

The catalog stores only the texts of playbooks, so one with code in other files cannot be registered. The playbooks that
a playbook calls need not exist: they may be registered later, and a run is refused while one is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from noetl_compiler.api import Result
from noetl_compiler.calling.callable_playbook import CallablePlaybook, callable_playbook
from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Diagnostic, sort_and_dedupe
from noetl_compiler.graph import Graph
from noetl_compiler.language.tool_description import Tools
from noetl_compiler.phases import ParsedPlaybook, compile_parsed
from noetl_compiler.playbook_set import PlaybookSet, duplicate_message, is_unrelated_yaml, parse_file, playbook_files
from noetl_compiler.report import Report
from noetl_compiler.scripts import tasks_with_files

__all__ = ["Candidate", "Candidates", "read_candidates"]


class Candidate(NamedTuple):
    """A playbook that can be registered."""

    graph: Graph
    text: str


class Candidates(NamedTuple):
    """The playbooks that can be registered together.

    ``playbooks`` are in the order in which they become versions; ``results`` has the result of each file.
    """

    playbooks: tuple[Candidate, ...]
    results: tuple[Result, ...]

    @property
    def problems(self) -> list[Result]:
        """The results of the files with errors."""
        return [result for result in self.results if result.graph is None]


def read_candidates(paths: Sequence[Path], tools: Tools) -> Candidates:
    """Return the playbooks in files and below folders."""
    parsed_playbooks = (_check_scripts(playbook) for path in paths for playbook in _parse(path, tools))
    by_file = {Path(playbook.source.file).resolve(): playbook for playbook in parsed_playbooks}
    playbooks = PlaybookSet(Path(), [callable_playbook(playbook) for playbook in by_file.values()])
    results = [compile_parsed(_check_path(playbook, playbooks)) for playbook in playbooks.playbooks]
    ordered_playbooks = (playbook for path in playbooks.paths for playbook in playbooks.versions(path))
    return Candidates(
        tuple(
            Candidate(playbook.graph, playbook.parsed.source.text)
            for playbook in ordered_playbooks
            if playbook.graph is not None
        ),
        tuple(results),
    )


def _parse(path: Path, tools: Tools) -> Iterator[ParsedPlaybook]:
    if not path.is_dir():
        yield parse_file(path, tools)
        return
    parsed_playbooks = (parse_file(file, tools) for file in playbook_files(path))
    yield from (playbook for playbook in parsed_playbooks if not is_unrelated_yaml(playbook))


def _check_scripts(parsed: ParsedPlaybook) -> ParsedPlaybook:
    """Report scripts in files beside the playbook."""
    report = Report(parsed.source)
    for task in tasks_with_files(parsed.playbook) if parsed.playbook is not None else ():
        message = "the code is in a file beside the playbook, but the catalog stores only the text of the playbook"
        report.error(Code.NO_EXECUTOR, task.span, message, "write the code in the playbook, or fetch it by http")
    return _with_diagnostics(parsed, report.diagnostics)


def _check_path(playbook: CallablePlaybook, playbooks: PlaybookSet) -> ParsedPlaybook:
    """Report other files with the same path and version, as it is unknown which of them is newer."""
    report = Report(playbook.parsed.source)
    if duplicates := playbooks.duplicates_of(playbook):
        hint = "give it another path or version, or register the files one by one"
        report.error(Code.DUPLICATE_PLAYBOOK, playbook.span, duplicate_message(playbook), hint, duplicates)
    return _with_diagnostics(playbook.parsed, report.diagnostics)


def _with_diagnostics(parsed: ParsedPlaybook, diagnostics: Iterable[Diagnostic]) -> ParsedPlaybook:
    return replace(parsed, diagnostics=sort_and_dedupe((*parsed.diagnostics, *diagnostics)))
