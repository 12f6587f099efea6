"""Pin the playbooks that a playbook calls, and those that they call, before a run is submitted (semantics.md 27).

A call that names its playbook is pinned to the digest of the graph that the playbook set has at submission. A call
whose path is a template may mean any playbook of the set, so all of them that compile are pinned.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from noetl_compiler.api import Result
from noetl_compiler.calling.call_cycles import Edge
from noetl_compiler.calling.callable_playbook import CallablePlaybook, callable_playbook
from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Diagnostic, Severity
from noetl_compiler.graph import Graph
from noetl_compiler.graph.pinned import PinnedCalls, PinnedPlaybook, call_name, has_templated_calls
from noetl_compiler.language.tool_description import Tools
from noetl_compiler.phases import ParsedPlaybook
from noetl_compiler.playbook_set import PlaybookSet, parse_file, read_folder, with_call_diagnostics

__all__ = ["PinningResult", "pin_calls", "pin_file", "pin_graphs"]


class PinningResult(NamedTuple):
    """The result of pinning calls.

    ``problems`` has one entry for each playbook whose calls are wrong: its diagnostics, with at least one error.
    """

    calls: PinnedCalls
    problems: tuple[Result, ...]


def pin_calls(root: ParsedPlaybook, playbooks: PlaybookSet) -> PinningResult:
    """Return the playbooks that ``root`` calls, with all that they call. A missing input is an error."""
    pinner = _Pinner(playbooks)
    caller = playbooks.in_file(root.source.file) or callable_playbook(root)
    results = (_result_with_errors(playbook, playbooks) for playbook in pinner.follow([caller]))
    problems = tuple(result for result in results if result is not None)
    if pinner.has_templated_calls:
        pinner.pin_all()
    return PinningResult(PinnedCalls(pinner.playbooks, pinner.pins, pinner.names), problems)


def pin_file(file: Path, folder: Path, tools: Tools) -> PinningResult:
    """Return the playbooks below ``folder`` that the playbook in ``file`` calls, with all that they call."""
    parsed = parse_file(file, tools)
    return pin_calls(parsed, read_folder(folder, [parsed], tools))


def pin_graphs(graphs: Iterable[tuple[str, Graph]]) -> PinnedCalls:
    """Pin compiled playbooks by the names under which they are called, and by the paths of their metadata."""
    names, playbooks = dict[str, str](), dict[str, PinnedPlaybook]()
    for name, graph in graphs:
        playbooks[graph.digest] = PinnedPlaybook(graph, "")
        source = graph.source
        names.setdefault(source.path, graph.digest)
        names[call_name(source.path, source.version)] = names[name] = graph.digest
    return PinnedCalls(playbooks, digests_by_name=names)


class _Pinner:
    """Collects the pinned playbooks."""

    def __init__(self, playbooks: PlaybookSet) -> None:
        self._playbooks = playbooks
        self._followed_digests: set[str] = set()
        self.playbooks: dict[str, PinnedPlaybook] = {}
        self.pins: dict[str, dict[str, str]] = {}
        self.names: dict[str, str] = {}
        self.has_templated_calls = False

    def follow(self, callers: Iterable[CallablePlaybook]) -> list[CallablePlaybook]:
        """Pin the calls of these playbooks and of all that they call. Return those that were not followed before."""
        pending, followed_playbooks = list(callers), list[CallablePlaybook]()
        for caller in pending:
            if caller.graph is None or caller.graph.digest in self._followed_digests:
                continue
            self._followed_digests.add(caller.graph.digest)
            followed_playbooks.append(caller)
            self.has_templated_calls |= has_templated_calls(caller.graph)
            for call in caller.calls:
                called_playbook = self._playbooks.find_called(Edge(caller, call))
                if called_playbook is not None and called_playbook.graph is not None:
                    pins = self.pins.setdefault(caller.graph.digest, {})
                    pins[call_name(call.path, call.version)] = self._pin(called_playbook, called_playbook.graph)
                    pending.append(called_playbook)
        return followed_playbooks

    def pin_all(self) -> None:
        """Pin every playbook of the set that compiles, under all its names."""
        self.follow([*self._playbooks.playbooks])
        for playbook in self._playbooks.playbooks:
            if playbook.graph is not None:
                digest = self._pin(playbook, playbook.graph)
                self.names |= dict.fromkeys(self._playbooks.file_names(playbook), digest)
        for path in self._playbooks.paths:
            for playbook in self._playbooks.versions(path):  # the newest is last
                if playbook.graph is not None:
                    self.names[path] = self.names[call_name(path, playbook.version)] = playbook.graph.digest

    def _pin(self, playbook: CallablePlaybook, graph: Graph) -> str:
        self.playbooks[graph.digest] = PinnedPlaybook(graph, playbook.parsed.source.text)
        return graph.digest


def _result_with_errors(playbook: CallablePlaybook, playbooks: PlaybookSet) -> Result | None:
    """Return the diagnostics of a playbook and its calls; None if there is no error."""
    parsed = with_call_diagnostics(playbook.parsed, playbooks)
    diagnostics = [_diagnostic_at_submission(diagnostic) for diagnostic in parsed.diagnostics]
    if all(diagnostic.severity is not Severity.ERROR for diagnostic in diagnostics):
        return None
    return Result(None, tuple(diagnostics), parsed.source)


def _diagnostic_at_submission(diagnostic: Diagnostic) -> Diagnostic:
    is_missing_input = diagnostic.code is Code.MISSING_INPUT
    return replace(diagnostic, severity=Severity.ERROR) if is_missing_input else diagnostic
