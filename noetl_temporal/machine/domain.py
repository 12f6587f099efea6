"""Domain events: the NoETL log as the machine writes it (event-schema.md 0).

The machine emits decisions and boundaries; attempts and sinks are read out of the activity's report by the mirror.
Ids are minted here, from facts alone: the event's time, the workflow's lane and the event's ordinal.
"""

from __future__ import annotations

import msgspec

from noetl_compiler.graph import Json

__all__ = ["EPOCH_MS", "DomainEvent", "event_id"]

EPOCH_MS = 1704067200000
"""2024-01-01 UTC, the epoch of every NoETL id (23-bit shift)."""


def event_id(at: int, lane: int, ordinal: int) -> int:
    """An id that rises with time: 40 bits of milliseconds, 1 bit 0 (derived ids set it), 10 of lane, 12 of ordinal."""
    return (at - EPOCH_MS) << 23 | (lane & 0x3FF) << 12 | (ordinal & 0xFFF)


class DomainEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """One row of noetl.event. ``at`` in milliseconds since the epoch, ``duration`` in seconds.

    ``node`` is the step name (or the playbook's path, or ``workflow``), ``kind`` the node type (playbook, workflow,
    step, loop, iteration, or the tool kind of a task). ``meta`` as event-schema.md 0 lists it.
    """

    id: int
    at: int
    type: str
    node: str
    kind: str
    status: str
    parent: int | None = None
    duration: float | None = None
    result: Json = None
    error: str | None = None
    context: dict[str, Json] = {}
    meta: dict[str, Json] = {}
