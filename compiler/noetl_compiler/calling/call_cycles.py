"""Cycles of calls in a catalog."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from noetl_compiler.calling.entry import Call, Member

__all__ = ["Edge", "shortest_cycle"]


class Edge(NamedTuple):
    """A call and the playbook that makes it."""

    caller: Member
    call: Call


def shortest_cycle(start: Edge, called: Callable[[Edge], Member | None]) -> Sequence[Edge]:
    """Return the shortest cycle of calls that begins with ``start``; empty if there is none."""
    ways: list[tuple[Edge, ...]] = [(start,)]
    seen: set[tuple[str, str]] = set()
    for way in ways:
        member = called(way[-1])
        if member is None or member.identity in seen:
            continue
        if member.identity == start.caller.identity:
            return way
        seen.add(member.identity)
        ways += ((*way, Edge(member, call)) for call in member.calls)
    return ()
