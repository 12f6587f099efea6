"""The playbooks that are registered together in a catalog of texts: all of them, or none if one is wrong.

A catalog stores only the text, so a playbook with code in files beside it cannot be registered. Playbooks that it
calls are not looked for: they may be registered later, and a run is refused while one is missing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from noetl_compiler.api import Result
from noetl_compiler.calling.entry import Member, member_of
from noetl_compiler.catalog import Catalog, is_other_yaml, parse_file, playbook_files
from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Diagnostic, Related, sort_and_dedupe
from noetl_compiler.graph import Graph
from noetl_compiler.language.tool_description import Tools
from noetl_compiler.phases import ParsedPlaybook, lowered
from noetl_compiler.report import Report
from noetl_compiler.scripts import tasks_with_files

__all__ = ["Candidate", "Candidates", "candidates"]


class Candidate(NamedTuple):
    """A playbook that can be registered."""

    graph: Graph
    text: str


class Candidates(NamedTuple):
    """The playbooks that can be registered together.

    ``playbooks`` in the order in which they become versions, ``results`` of each file.
    """

    playbooks: tuple[Candidate, ...]
    results: tuple[Result, ...]

    @property
    def problems(self) -> list[Result]:
        """The results of the files with errors."""
        return [one for one in self.results if one.graph is None]


def candidates(paths: Sequence[Path], tools: Tools) -> Candidates:
    """Return the playbooks in files and below folders."""
    found = {Path(one.source.file).resolve(): _self_contained(one) for path in paths for one in _read(path, tools)}
    members = [member_of(one) for one in found.values()]
    catalog = Catalog(Path(), members)
    results = [lowered(_with_path_checked(one, catalog)) for one in members]
    ordered = (member for path in catalog.paths for member in catalog.versions(path))
    playbooks = tuple(Candidate(one.graph, one.found.source.text) for one in ordered if one.graph is not None)
    return Candidates(playbooks, tuple(results))


def _read(path: Path, tools: Tools) -> Iterator[ParsedPlaybook]:
    if not path.is_dir():
        yield parse_file(path, tools)
        return
    found = (parse_file(file, tools) for file in playbook_files(path))
    yield from (one for one in found if not is_other_yaml(one))


def _self_contained(found: ParsedPlaybook) -> ParsedPlaybook:
    report = Report(found.source)
    for task in tasks_with_files(found.playbook) if found.playbook is not None else ():
        message = "the code is in a file beside the playbook, but the catalog stores only the text of the playbook"
        report.error(Code.NO_EXECUTOR, task.span, message, "write the code in the playbook, or fetch it by http")
    return _with_diagnostic(found, report.found)


def _with_path_checked(member: Member, catalog: Catalog) -> ParsedPlaybook:
    """Report another file with the same path and version, as it is unknown which is newer."""
    same = defaultdict[tuple[str, str], list[Member]](list)
    for one in catalog.versions(member.path):
        same[one.identity].append(one)
    others = [one for one in same[member.identity] if one.file != member.file]
    report = Report(member.found.source)
    if others:
        related = tuple(Related(one.span, f'"{one.path}" is here too', one.file) for one in others)
        message = f'another file has the path "{member.path}" and the same version'
        hint = "give it another path or version, or register the files one by one"
        report.error(Code.DUPLICATE_PLAYBOOK, member.span, message, hint, related)
    return _with_diagnostic(member.found, report.found)


def _with_diagnostic(found: ParsedPlaybook, more: Iterable[Diagnostic]) -> ParsedPlaybook:
    return replace(found, diagnostics=sort_and_dedupe((*found.diagnostics, *more)))
