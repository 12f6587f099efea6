"""Pins the playbooks that a playbook calls, and those that they call, before a run is submitted (semantics.md 27).

A call that names its playbook is pinned to the digest of the graph that the catalog has now. One whose path is a
template may mean any playbook of the catalog, so all of them that compile are pinned then.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from noetl_compiler.api import Result
from noetl_compiler.calling.call_cycles import Edge
from noetl_compiler.calling.entry import Member, member_of
from noetl_compiler.catalog import Catalog, parse_file, read_catalog, with_calls
from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Diagnostic, Severity
from noetl_compiler.graph import Graph
from noetl_compiler.graph.pinned import PinnedCalls, PinnedPlaybook, call_name, has_open_calls
from noetl_compiler.language.tool_description import Tools
from noetl_compiler.phases import ParsedPlaybook

__all__ = ["Pinned", "pin_calls", "pin_file", "pin_graphs"]


class Pinned(NamedTuple):
    """The result of pinning calls.

    ``problems`` has one entry a playbook whose calls are wrong: its diagnostics, with at least one error.
    """

    calls: PinnedCalls
    problems: tuple[Result, ...]


def pin_calls(root: ParsedPlaybook, catalog: Catalog) -> Pinned:
    """Return the playbooks that ``root`` calls, with all that they call. A missing input is an error."""
    pinning = _Pinning(catalog)
    caller = catalog.member(root.source.file) or member_of(root)
    problems = [one for member in pinning.follow([caller]) if (one := _problems(member, catalog)) is not None]
    if pinning.is_open:
        pinning.name_all()
    return Pinned(PinnedCalls(pinning.playbooks, pinning.pins, pinning.names), tuple(problems))


def pin_file(file: Path, folder: Path, tools: Tools) -> Pinned:
    """Return the playbooks below ``folder`` that the playbook in ``file`` calls, with all that they call."""
    found = parse_file(file, tools)
    return pin_calls(found, read_catalog(folder, [found], tools))


def pin_graphs(graphs: Iterable[tuple[str, Graph]]) -> PinnedCalls:
    """Compiled playbooks by the names under which they are called, beside the paths of their metadata."""
    names, playbooks = dict[str, str](), dict[str, PinnedPlaybook]()
    for name, graph in graphs:
        playbooks[graph.digest] = PinnedPlaybook(graph, "")
        source = graph.source
        names.setdefault(source.path, graph.digest)
        names[call_name(source.path, source.version)] = names[name] = graph.digest
    return PinnedCalls(playbooks, names=names)


class _Pinning:
    """The playbooks pinned so far."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._seen: set[str] = set()
        self.playbooks: dict[str, PinnedPlaybook] = {}
        self.pins: dict[str, dict[str, str]] = {}
        self.names: dict[str, str] = {}
        self.is_open = False

    def follow(self, members: Iterable[Member]) -> list[Member]:
        """Pin the calls of these and of all that they call. Returns those that were not followed before."""
        waiting, followed = list(members), list[Member]()
        for member in waiting:
            if member.graph is None or member.graph.digest in self._seen:
                continue
            self._seen.add(member.graph.digest)
            followed.append(member)
            self.is_open |= has_open_calls(member.graph)
            for call in member.calls:
                called = self._catalog.called(Edge(member, call))
                if called is not None and called.graph is not None:
                    pins = self.pins.setdefault(member.graph.digest, {})
                    pins[call_name(call.path, call.version)] = self._pin(called, called.graph)
                    waiting.append(called)
        return followed

    def name_all(self) -> None:
        """Pin every playbook of the catalog that compiles, under all its names."""
        self.follow([*self._catalog.members])
        for member in self._catalog.members:
            if member.graph is not None:
                digest = self._pin(member, member.graph)
                self.names |= dict.fromkeys(self._catalog.names_of(member), digest)
        for path in self._catalog.paths:
            for member in self._catalog.versions(path):  # the newest is last
                if member.graph is not None:
                    self.names[path] = self.names[call_name(path, member.version)] = member.graph.digest

    def _pin(self, member: Member, graph: Graph) -> str:
        self.playbooks[graph.digest] = PinnedPlaybook(graph, member.found.source.text)
        return graph.digest


def _problems(member: Member, catalog: Catalog) -> Result | None:
    found = [_at_submission(one) for one in with_calls(member.found, catalog).diagnostics]
    if all(one.severity is not Severity.ERROR for one in found):
        return None
    return Result(None, tuple(found), member.found.source)


def _at_submission(found: Diagnostic) -> Diagnostic:
    return replace(found, severity=Severity.ERROR) if found.code is Code.MISSING_INPUT else found
