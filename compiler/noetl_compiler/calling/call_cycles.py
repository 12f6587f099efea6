"""Ways of calls through a catalog."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from noetl_compiler.calling.entry import Call, Member

__all__ = ["Edge", "way_back"]


class Edge(NamedTuple):
    """A call and the playbook that makes it."""

    caller: Member
    call: Call


def way_back(start: Edge, called: Callable[[Edge], Member | None]) -> Sequence[Edge]:
    """The shortest way of calls that begins with ``start`` and leads to its caller; nothing when there is none."""
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
