"""Playbooks that call each other, checked across files (semantics.md 27).

A playbook set is made of the playbooks below a folder, or of those of several files. It shows what one file does not:
calls of a playbook that does not exist or has errors, two files with the same path, recursive calls, inputs that a call
lacks, and inputs that the called playbook does not use. A path or an input that is a template is known only at run
time, so it is not checked.

A call names a playbook by the path of its metadata, or, in older playbooks, by its file: relative to the folder of the
set or to that of the caller, with or without the suffix. Without a version, a call means the newest.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec.structs import replace

from noetl_compiler.calling.call_cycles import Edge, shortest_cycle
from noetl_compiler.calling.callable_playbook import Call, CallablePlaybook, callable_playbook
from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Related, did_you_mean, did_you_mean_or_list, sort_and_dedupe
from noetl_compiler.language.tool_description import Tools
from noetl_compiler.language.tools import KINDS
from noetl_compiler.nodes import MappingNode, ScalarNode
from noetl_compiler.phases import ParsedPlaybook, parse_playbook
from noetl_compiler.reader import read_file
from noetl_compiler.report import Report

__all__ = [
    "PlaybookSet",
    "duplicate_message",
    "is_unrelated_yaml",
    "parse_file",
    "playbook_files",
    "read_folder",
    "with_call_diagnostics",
]

_SUFFIXES = frozenset({".yaml", ".yml"})
_NUMBER = re.compile(r"\d+")


class PlaybookSet:
    """Playbooks that may call each other, by path and by file."""

    def __init__(self, folder: Path, playbooks: Iterable[CallablePlaybook]) -> None:
        self._folder = folder
        self._by_path: dict[str, list[CallablePlaybook]] = defaultdict(list)
        self._by_file: dict[Path, CallablePlaybook] = {}
        self._called: dict[tuple[str, str, str], CallablePlaybook | None] = {}
        for playbook in playbooks:
            self._by_file[Path(playbook.file).resolve()] = playbook
            if playbook.path:
                self._by_path[playbook.path].append(playbook)

    @property
    def paths(self) -> Iterable[str]:
        """The paths by which playbooks can be called."""
        return self._by_path.keys()

    @property
    def playbooks(self) -> Iterable[CallablePlaybook]:
        """All playbooks, in the order of their files."""
        return self._by_file.values()

    def file_names(self, playbook: CallablePlaybook) -> Iterator[str]:
        """Yield the names of its file, relative to the folder, by which it can be called: with and without suffix."""
        file = Path(playbook.file).resolve()
        if file.is_relative_to(self._folder.resolve()):
            relative = file.relative_to(self._folder.resolve())
            yield from (relative.as_posix(), relative.with_suffix("").as_posix())

    @property
    def unreadable_count(self) -> int:
        """The number of files that could not be read."""
        return sum(not playbook.path for playbook in self._by_file.values())

    def in_file(self, file: str) -> CallablePlaybook | None:
        """Return the playbook in a file."""
        return self._by_file.get(Path(file).resolve())

    def versions(self, path: str) -> list[CallablePlaybook]:
        """Return all playbooks with a path, the newest last; those of one version in the order of their files."""
        return sorted(self._by_path.get(path, ()), key=lambda playbook: _version_key(playbook.version))

    def duplicates_of(self, playbook: CallablePlaybook) -> tuple[Related, ...]:
        """Return the places of the other files with the same path and version."""
        return tuple(
            Related(other.span, f'"{other.path}" is here too', other.file)
            for other in self.versions(playbook.path)
            if other.identity == playbook.identity and other.file != playbook.file
        )

    def find_called(self, edge: Edge) -> CallablePlaybook | None:
        """Return the playbook that a call names."""
        key = (edge.caller.file, edge.call.path, edge.call.version)
        if key not in self._called:
            self._called[key] = self._find(edge)
        return self._called[key]

    def _find(self, edge: Edge) -> CallablePlaybook | None:
        versions = self.versions(edge.call.path)
        if versions:
            version = edge.call.version or versions[-1].version
            return next((playbook for playbook in versions if playbook.version == version), None)
        return next(filter(None, map(self._by_file.get, self._candidate_files(edge))), None)

    def _candidate_files(self, edge: Edge) -> Iterator[Path]:
        for folder in (self._folder, Path(edge.caller.file).parent):
            path = (folder / edge.call.path.lstrip("/")).resolve()
            yield from (path, *(path.with_name(f"{path.name}{suffix}") for suffix in sorted(_SUFFIXES)))


def _version_key(version: str) -> tuple[int, ...]:
    """Return a sort key: ``1.10`` comes after ``1.9``, and no version comes first."""
    return tuple(int(number) for number in _NUMBER.findall(version)) if version else ()


def playbook_files(folder: Path) -> list[Path]:
    """Return the YAML files below a folder, by name. Not all need be playbooks."""
    return sorted(file for file in folder.rglob("*") if file.suffix in _SUFFIXES and file.is_file())


def is_unrelated_yaml(parsed: ParsedPlaybook) -> bool:
    """Whether a YAML file is not meant to be a playbook: it has no ``kind: Playbook``, and cannot be read as one. Such
    files are ignored in a folder.
    """
    kind = parsed.root.get("kind") if isinstance(parsed.root, MappingNode) else None
    has_kind = isinstance(kind, ScalarNode) and kind.text.lower() == "playbook"
    return not has_kind and any(diagnostic.code is Code.NOT_A_PLAYBOOK for diagnostic in parsed.diagnostics)


def read_folder(folder: Path, parsed_playbooks: Iterable[ParsedPlaybook] = (), tools: Tools = KINDS) -> PlaybookSet:
    """Return every playbook below a folder. Those in ``parsed_playbooks`` are not read again."""
    by_file = {Path(parsed.source.file).resolve(): parsed for parsed in parsed_playbooks}
    files = (by_file.get(file.resolve()) or parse_file(file, tools) for file in playbook_files(folder))
    return PlaybookSet(folder, [callable_playbook(parsed) for parsed in files if not is_unrelated_yaml(parsed)])


def parse_file(file: Path, tools: Tools = KINDS) -> ParsedPlaybook:
    """Parse a file. If it cannot be read, the result has only the reason."""
    source, unreadable = read_file(file)
    if unreadable:
        return ParsedPlaybook(source, None, None, tuple(unreadable), tools)
    return parse_playbook(source, tools)


def with_call_diagnostics(parsed: ParsedPlaybook, playbooks: PlaybookSet) -> ParsedPlaybook:
    """Return the playbook with the diagnostics of its calls: NT601 to NT606."""
    if parsed.playbook is None:
        return parsed
    report = Report(parsed.source, parsed.diagnostics, parsed.root)
    caller = playbooks.in_file(parsed.source.file) or callable_playbook(parsed)
    _check_path_of(caller, playbooks, report)
    for call in caller.calls:
        edge = Edge(caller, call)
        called_playbook = playbooks.find_called(edge)
        if called_playbook is None:
            _report_unknown(call, playbooks, report)
        else:
            _check_cycle(edge, playbooks, report)
            _check_call(call, called_playbook, report)
    return replace(parsed, diagnostics=sort_and_dedupe(report.diagnostics))


def _check_path_of(playbook: CallablePlaybook, playbooks: PlaybookSet, report: Report) -> None:
    """Report other files with the same path and version."""
    duplicates = playbooks.duplicates_of(playbook)
    if duplicates and playbooks.in_file(playbook.file):
        hint = "give it another path or version; a call uses the first file by name"
        report.warning(Code.DUPLICATE_PLAYBOOK, playbook.span, duplicate_message(playbook), hint, duplicates)


def duplicate_message(playbook: CallablePlaybook) -> str:
    """Return the message about a playbook that has duplicates."""
    return f'another file has the path "{playbook.path}" and the same version'


def _report_unknown(call: Call, playbooks: PlaybookSet, report: Report) -> None:
    if versions := playbooks.versions(call.path):
        message = f'the playbook "{call.path}" has no version "{call.version}"'
        versions_text = ", ".join(f'"{playbook.version}"' for playbook in versions if playbook.version) or "no versions"
        report.error(Code.UNKNOWN_PLAYBOOK, call.span, message, f"it has {versions_text}")
        return
    hint = did_you_mean(call.path, playbooks.paths)
    if not hint and (count := playbooks.unreadable_count):
        hint = f"{count} of the files cannot be read; run noetl compile on the folder to see why"
    report.error(Code.UNKNOWN_PLAYBOOK, call.span, f'unknown playbook "{call.path}"', hint)


def _check_call(call: Call, called_playbook: CallablePlaybook, report: Report) -> None:
    if called_playbook.graph is None:
        if report.first_time(f"invalid {called_playbook.file}"):
            message = f'the playbook "{call.path}" has errors'
            report.error(Code.INVALID_PLAYBOOK, call.span, message, f"noetl compile {called_playbook.file}")
        return
    if call.return_step and call.return_step not in called_playbook.graph.steps:
        message = f'the playbook "{call.path}" has no step "{call.return_step}"'
        hint = did_you_mean_or_list(call.return_step, called_playbook.graph.steps, "its steps are")
        report.error(Code.UNKNOWN_STEP, call.return_step_span, message, hint)
    if missing := called_playbook.missing_inputs(call):
        message = f'the call of "{call.path}" lacks the input {_quote_names(missing)}'
        report.warning(Code.MISSING_INPUT, call.span, message, "pass it as input, or give it a default in its workload")
    if unused_names := called_playbook.unused_inputs(call):
        message = f'the call of "{call.path}" passes {_quote_names(unused_names)}, which it does not use'
        report.warning(
            Code.UNUSED_INPUT,
            call.span,
            message,
            did_you_mean(unused_names[0], called_playbook.workload | called_playbook.needs),
        )


def _check_cycle(edge: Edge, playbooks: PlaybookSet, report: Report) -> None:
    cycle = shortest_cycle(edge, playbooks.find_called)
    if cycle:
        paths = " -> ".join(f'"{path}"' for path in (edge.caller.path, *(other.call.path for other in cycle)))
        message = f"recursive call: {paths}"
        related = tuple(_related_call(other) for other in cycle[1:])
        report.warning(Code.PLAYBOOK_CYCLE, edge.call.span, message, "end the recursion with a condition", related)


def _related_call(edge: Edge) -> Related:
    return Related(edge.call.span, f'"{edge.caller.path}" calls "{edge.call.path}"', edge.caller.file)


def _quote_names(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
