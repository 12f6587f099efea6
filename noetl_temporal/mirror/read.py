"""Reading the event log: what `noetl events`, `noetl status` and the client show."""

from __future__ import annotations

import datetime
import json
from typing import Any

import asyncpg
import msgspec

from noetl_temporal.mirror.sql import QUERIES

__all__ = ["LAST_EVENTS", "EventRow", "ExecutionRow", "read_events", "read_execution"]

LAST_EVENTS = frozenset({"playbook.completed", "playbook.failed", "playbook.cancelled"})


class EventRow(msgspec.Struct, frozen=True):
    """One row of noetl.event. ``duration`` in seconds, times in UTC."""

    event_id: int
    parent_event_id: int | None
    event_type: str
    node_name: str
    node_type: str | None
    status: str
    created_at: datetime.datetime
    duration: float | None
    result: dict[str, Any] | None
    meta: dict[str, Any]
    error: str | None

    @property
    def is_last(self) -> bool:
        """Whether the run is over with this event."""
        return self.event_type in LAST_EVENTS


class ExecutionRow(msgspec.Struct, frozen=True):
    """One row of noetl.execution with its playbook's path and version."""

    execution_id: int
    path: str
    version: int
    status: str
    start_time: datetime.datetime | None
    end_time: datetime.datetime | None
    error: str | None
    events: int


async def read_events(dsn: str, execution_id: int) -> list[EventRow]:
    """All events of an execution in order; empty when it is not known."""
    connection = await asyncpg.connect(dsn)
    try:
        return [_event(record) for record in await connection.fetch(QUERIES["events_of"], execution_id)]
    finally:
        await connection.close()


def _event(record: asyncpg.Record) -> EventRow:
    fields = dict(record)
    for name in ("result", "meta"):
        fields[name] = json.loads(fields[name]) if fields[name] else None
    return EventRow(**{**fields, "meta": fields["meta"] or {}})


async def read_execution(dsn: str, execution_id: int) -> ExecutionRow | None:
    """The execution's row, None when it is not known."""
    connection = await asyncpg.connect(dsn)
    try:
        record = await connection.fetchrow(QUERIES["execution_of"], execution_id)
    finally:
        await connection.close()
    return ExecutionRow(**dict(record)) if record else None
