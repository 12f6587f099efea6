"""Playbooks that call each other, checked across files (semantics.md 27).

A catalog is a folder of playbooks. What one file does not show is found here: a call of a playbook that is not there or
has errors, two files that claim the same path, calls that lead back to their caller, names that the called playbook
needs and does not get, and names that it gets and never reads. A path or an input that is a template is known at run
time only, so nothing is said of it.

A call names a playbook by the path of its metadata, or as old files do, by its file: from the catalog's folder or
from the caller's, with its suffix or without. Of several versions the newest is meant unless the call names one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec.structs import replace

from noetl_compiler.calling.call_cycles import Edge, shortest_cycle
from noetl_compiler.calling.entry import Call, Member, member_of
from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Related, nearest, sort_and_dedupe
from noetl_compiler.language.tool_description import Tools
from noetl_compiler.language.tools import KINDS
from noetl_compiler.nodes import MappingNode, ScalarNode
from noetl_compiler.phases import ParsedPlaybook, parse_playbook
from noetl_compiler.reader import read_file
from noetl_compiler.report import Report

__all__ = ["Catalog", "is_other_yaml", "parse_file", "playbook_files", "read_catalog", "with_calls"]

_SUFFIXES = frozenset({".yaml", ".yml"})
_NUMBER = re.compile(r"\d+")


class Catalog:
    """The playbooks of a folder, by path and by file."""

    def __init__(self, folder: Path, members: Iterable[Member]) -> None:
        self._folder = folder
        self._by_path: dict[str, list[Member]] = defaultdict(list)
        self._by_file: dict[Path, Member] = {}
        self._called: dict[tuple[str, str, str], Member | None] = {}
        for member in members:
            self._by_file[Path(member.file).resolve()] = member
            if member.path:
                self._by_path[member.path].append(member)

    @property
    def paths(self) -> Iterable[str]:
        """The paths by which playbooks can be called."""
        return self._by_path.keys()

    @property
    def members(self) -> Iterable[Member]:
        """All playbooks, in the order of their files."""
        return self._by_file.values()

    def names_of(self, member: Member) -> Iterator[str]:
        """Yield the files by which a call may name it, from the folder: with the suffix and without."""
        file = Path(member.file).resolve()
        if file.is_relative_to(self._folder.resolve()):
            relative = file.relative_to(self._folder.resolve())
            yield from (relative.as_posix(), relative.with_suffix("").as_posix())

    @property
    def unread_count(self) -> int:
        """How many files could not be read."""
        return sum(not member.path for member in self._by_file.values())

    def member(self, file: str) -> Member | None:
        """Return the playbook in a file of the folder."""
        return self._by_file.get(Path(file).resolve())

    def versions(self, path: str) -> list[Member]:
        """Return all playbooks with a path, the newest last; those of one version in the order of their files."""
        return sorted(self._by_path.get(path, ()), key=lambda one: _rank(one.version))

    def called(self, edge: Edge) -> Member | None:
        """Return the playbook that a call names."""
        asked = (edge.caller.file, edge.call.path, edge.call.version)
        if asked not in self._called:
            self._called[asked] = self._find(edge)
        return self._called[asked]

    def _find(self, edge: Edge) -> Member | None:
        call = edge.call
        known = self.versions(call.path)
        if known:
            return next((one for one in known if one.version == (call.version or known[-1].version)), None)
        return next(filter(None, map(self._by_file.get, self._files(edge))), None)

    def _files(self, edge: Edge) -> Iterator[Path]:
        for folder in (self._folder, Path(edge.caller.file).parent):
            path = (folder / edge.call.path.lstrip("/")).resolve()
            yield from (path, *(path.with_name(f"{path.name}{suffix}") for suffix in sorted(_SUFFIXES)))


def _rank(version: str) -> tuple[int, ...]:
    """``1.10`` comes after ``1.9``; no version comes first."""
    return tuple(int(number) for number in _NUMBER.findall(version)) if version else ()


def playbook_files(folder: Path) -> list[Path]:
    """Return the YAML files below a folder, by name. Not all need be playbooks."""
    return sorted(file for file in folder.rglob("*") if file.suffix in _SUFFIXES and file.is_file())


def is_other_yaml(found: ParsedPlaybook) -> bool:
    """Whether a file of a folder is no playbook and need not be one."""
    kind = found.root.get("kind") if isinstance(found.root, MappingNode) else None
    is_named = isinstance(kind, ScalarNode) and kind.text.lower() == "playbook"
    return not is_named and any(one.code is Code.NOT_A_PLAYBOOK for one in found.diagnostics)


def read_catalog(folder: Path, known: Iterable[ParsedPlaybook] = (), tools: Tools = KINDS) -> Catalog:
    """Return every playbook below the folder. Files in ``known`` are not read again."""
    read = {Path(one.source.file).resolve(): one for one in known}
    found = (read.get(file.resolve()) or parse_file(file, tools) for file in playbook_files(folder))
    return Catalog(folder, [member_of(one) for one in found if not is_other_yaml(one)])


def parse_file(file: Path, tools: Tools = KINDS) -> ParsedPlaybook:
    """Parse a file. If it cannot be read, the result has only the reason."""
    source, unreadable = read_file(file)
    if unreadable:
        return ParsedPlaybook(source, None, None, tuple(unreadable), tools)
    return parse_playbook(source, tools)


def with_calls(found: ParsedPlaybook, catalog: Catalog) -> ParsedPlaybook:
    """Return the playbook with the diagnostics of its calls: NT601 to NT606."""
    if found.playbook is None:
        return found
    report = Report(found.source, found.diagnostics, found.root)
    caller = catalog.member(found.source.file) or member_of(found)
    _check_own_path(caller, catalog, report)
    for call in caller.calls:
        edge = Edge(caller, call)
        called = catalog.called(edge)
        if called is None:
            _report_unknown(call, catalog, report)
        else:
            _check_cycle(edge, catalog, report)
            _check_called(call, called, report)
    return replace(found, diagnostics=sort_and_dedupe(report.found))


def _check_own_path(own: Member, catalog: Catalog, report: Report) -> None:
    others = [one for one in catalog.versions(own.path) if one.identity == own.identity and one.file != own.file]
    if others and catalog.member(own.file):
        related = tuple(Related(one.span, f'"{one.path}" is here too', one.file) for one in others)
        message = f'another file of the catalog has the path "{own.path}" and the same version'
        hint = "give it another path or version; a call uses the first file by name"
        report.warning(Code.DUPLICATE_PLAYBOOK, own.span, message, hint, related)


def _report_unknown(call: Call, catalog: Catalog, report: Report) -> None:
    if known := catalog.versions(call.path):
        message = f'the catalog has "{call.path}", but not in version "{call.version}"'
        versions = ", ".join(f'"{one.version}"' for one in known if one.version) or "no versions"
        report.error(Code.UNKNOWN_PLAYBOOK, call.span, message, f"it has {versions}")
        return
    hint = nearest(call.path, catalog.paths)
    if not hint and catalog.unread_count:
        hint = f"{catalog.unread_count} of its files cannot be read; run noetl compile on the folder to see why"
    report.error(Code.UNKNOWN_PLAYBOOK, call.span, f'the catalog has no playbook "{call.path}"', hint)


def _check_called(call: Call, called: Member, report: Report) -> None:
    if called.graph is None:
        if report.first(f"invalid {called.file}"):
            message = f'the playbook "{call.path}" has errors'
            report.error(Code.INVALID_PLAYBOOK, call.span, message, f"noetl compile {called.file}")
        return
    if missing := called.lacks(call):
        message = f'the call of "{call.path}" lacks the input {_quoted(missing)}'
        report.warning(Code.MISSING_INPUT, call.span, message, "pass it as input, or give it a default in its workload")
    if unused := called.leaves_unused(call):
        message = f'the call of "{call.path}" passes {_quoted(unused)}, which it does not use'
        report.warning(Code.UNUSED_INPUT, call.span, message, nearest(unused[0], called.workload | called.needs))


def _check_cycle(edge: Edge, catalog: Catalog, report: Report) -> None:
    way = shortest_cycle(edge, catalog.called)
    if way:
        shown = " -> ".join(f'"{path}"' for path in (edge.caller.path, *(one.call.path for one in way)))
        message = f"recursive call: {shown}"
        related = tuple(_step_of_cycle(one) for one in way[1:])
        report.warning(Code.PLAYBOOK_CYCLE, edge.call.span, message, "end the recursion with a condition", related)


def _step_of_cycle(edge: Edge) -> Related:
    return Related(edge.call.span, f'"{edge.caller.path}" calls "{edge.call.path}"', edge.caller.file)


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
