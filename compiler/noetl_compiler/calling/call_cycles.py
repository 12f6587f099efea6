"""Find playbooks that call each other in a cycle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from noetl_compiler.calling.callable_playbook import Call, CallablePlaybook

__all__ = ["Edge", "shortest_cycle"]


class Edge(NamedTuple):
    """A call and the playbook that makes it."""

    caller: CallablePlaybook
    call: Call


def shortest_cycle(start: Edge, find_called: Callable[[Edge], CallablePlaybook | None]) -> Sequence[Edge]:
    """Return the shortest cycle of calls that begins with ``start``; empty if there is none."""
    chains: list[tuple[Edge, ...]] = [(start,)]
    visited_playbooks: set[tuple[str, str]] = set()
    for chain in chains:
        playbook = find_called(chain[-1])
        if playbook is None or playbook.identity in visited_playbooks:
            continue
        if playbook.identity == start.caller.identity:
            return chain
        visited_playbooks.add(playbook.identity)
        chains += ((*chain, Edge(playbook, call)) for call in playbook.calls)
    return ()
