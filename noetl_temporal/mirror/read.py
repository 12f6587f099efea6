"""Queries of the event log. ``database`` is a connection or a pool of asyncpg."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeAlias

import asyncpg
import msgspec
from asyncpg.pool import PoolConnectionProxy

from noetl_temporal.mirror import sql
from noetl_temporal.mirror.event_types import PLAYBOOK_ENDS

__all__ = [
    "Database",
    "Event",
    "EventCounts",
    "EventTail",
    "EventWidths",
    "Execution",
    "LogPosition",
    "LoggedEvent",
    "ReadProblem",
    "ReadProgress",
    "StepSummary",
    "called_runs",
    "event_counts",
    "event_widths",
    "events_after",
    "events_of",
    "find_execution",
    "latest_execution",
    "open_runs_below",
    "playbook_text",
    "position_before_last",
    "read_problems",
    "read_progress",
    "steps_of",
]

Database: TypeAlias = "asyncpg.Pool | asyncpg.Connection | PoolConnectionProxy"

RESUMED = "playbook.resumed"
"""The only event that may follow the end of a playbook, after a reset."""


class Event(msgspec.Struct, frozen=True):
    """A row of noetl.event. ``duration`` is in seconds, ``event_time`` is when it happened."""

    execution_id: int
    event_id: int
    parent_event_id: int | None
    parent_execution_id: int | None
    event_time: datetime
    event_type: str
    node_name: str
    node_type: str
    status: str
    duration: float | None
    context: dict[str, Any] | None
    result: dict[str, Any] | None
    meta: dict[str, Any]
    error: str | None
    worker_id: str | None


class LoggedEvent(NamedTuple):
    """An event, and whether a reset superseded it."""

    event: Event
    is_superseded: bool


class LogPosition(NamedTuple):
    """A position in the log of an execution, in the order in which its rows happened: after the row with this time and
    id.
    """

    event_time: datetime = datetime(1, 1, 1, tzinfo=UTC)
    event_id: int = 0

    @classmethod
    def after(cls, event: Event) -> LogPosition:
        """Return the position after this row."""
        return cls(event.event_time, event.event_id)


class EventWidths(NamedTuple):
    """The maximum number of characters of each column, and the longest duration in seconds."""

    event_type: int
    node_name: int
    status: int
    duration: float


class EventCounts(NamedTuple):
    """The number of events of an execution, and of those that resets superseded."""

    events: int
    superseded: int


class Execution(msgspec.Struct, frozen=True):
    """A row of noetl.execution with its playbook's path and version; its times are naive UTC.

    ``status`` is RUNNING, PAUSED, COMPLETED, PARTIAL, FAILED, CANCELLED, TERMINATED or TIMED_OUT.
    """

    execution_id: int
    parent_execution_id: int | None
    path: str
    version: int
    status: str
    start_time: datetime
    end_time: datetime | None
    error: str | None
    last_event_type: str | None
    last_node_name: str | None


class CalledRun(msgspec.Struct, frozen=True):
    """A called run; ``status`` as in Execution, in lower case."""

    execution_id: int
    path: str
    status: str


class StepSummary(msgspec.Struct, frozen=True):
    """A summary of all runs of a step.

    ``status`` is PAUSED while a step run is held, STARTED while one runs, else that of the last.
    ``duration_seconds`` is the sum over the step runs that have ended, but at most the time between the first start
    and the last end. A step is ``reused`` if a rerun has its result from an earlier run and did not run it, and
    ``is_waiting`` if it waits for a time, a signal or a person.
    """

    step: str
    status: str
    started_at: datetime
    duration_seconds: float | None
    error: str | None
    runs: int
    reused: bool
    is_waiting: bool
    attempts: int
    retries: int
    pages: int
    iterations_total: int | None
    iterations_ended: int
    iterations_failed: int


class ReadProblem(msgspec.Struct, frozen=True):
    """The ``problem`` because of which a run's history cannot be read, and the time since which it exists."""

    namespace: str
    workflow_id: str
    run_id: str
    problem: str
    since: datetime


class ReadProgress(msgspec.Struct, frozen=True):
    """Whether a run and its loops have been read to their end, and the problems that prevent it."""

    is_complete: bool
    problems: list[ReadProblem]


async def find_execution(database: Database, execution_id: int) -> Execution | None:
    """Return the execution with this id; None if it is not in the log."""
    record = await database.fetchrow(sql.query("execution"), execution_id)
    return _execution(record) if record else None


async def latest_execution(database: Database) -> Execution | None:
    """Return the latest execution that was not called by another one; None if the log is empty."""
    record = await database.fetchrow(sql.query("latest_execution"))
    return _execution(record) if record else None


async def events_of(
    database: Database, execution_id: int, *, after: int = 0, types: Sequence[str] = (), limit: int = 100_000
) -> list[Event]:
    """Return the events after the id ``after``, in the order of their ids, without superseded ones; only those of
    ``types``, if given.
    """
    if types:
        query = sql.query("events_of_types")
        return [_event(record) for record in await database.fetch(query, execution_id, after, limit, list(types))]
    return [_event(record) for record in await database.fetch(sql.query("events"), execution_id, after, limit)]


async def events_after(database: Database, execution_id: int, position: LogPosition, limit: int) -> list[LoggedEvent]:
    """Return the next events after a position, in the order in which they happened."""
    records = await database.fetch(sql.query("events_by_time"), execution_id, *position, limit)
    return [LoggedEvent(_event(record), record["superseded"]) for record in records]


async def position_before_last(database: Database, execution_id: int, count: int) -> LogPosition:
    """Return the position before the last ``count`` events, or the start of the log if there are fewer."""
    record = await database.fetchrow(sql.query("position_before_last"), execution_id, count - 1)
    return LogPosition() if record is None else LogPosition(*record)


async def event_widths(database: Database, execution_id: int, position: LogPosition) -> EventWidths:
    """Return the widths of the columns for the events after ``position``."""
    record = await database.fetchrow(sql.query("event_widths"), execution_id, *position)
    return EventWidths(*(width or 0 for width in record or (0, 0, 0, 0)))


async def event_counts(database: Database, execution_id: int) -> EventCounts:
    """Return how many events of an execution the log has."""
    record = await database.fetchrow(sql.query("event_counts"), execution_id)
    return EventCounts(*(record or (0, 0)))


async def playbook_text(database: Database, execution_id: int) -> tuple[str, str] | None:
    """Return the path and the text of an execution's playbook; the text is empty if its client did not send it."""
    record = await database.fetchrow(sql.query("playbook_text"), execution_id)
    return None if record is None else (record["path"], record["content"] or "")


async def called_runs(database: Database, execution_id: int, limit: int) -> tuple[list[CalledRun], int]:
    """Return the first runs that an execution has called, and how many there are in all."""
    records = await database.fetch(sql.query("called_runs"), execution_id, limit)
    runs = [CalledRun(record["execution_id"], record["path"], record["status"].lower()) for record in records]
    return runs, records[0]["total"] if records else 0


async def open_runs_below(database: Database, execution_id: int, limit: int) -> list[CalledRun]:
    """Return the open runs that an execution has called, directly or through others, the oldest first."""
    records = await database.fetch(sql.query("open_runs_below"), execution_id, limit)
    return [CalledRun(record["execution_id"], record["path"], record["status"].lower()) for record in records]


async def steps_of(database: Database, execution_id: int) -> list[StepSummary]:
    """Return the steps in the order in which they started."""
    records = await database.fetch(sql.query("steps"), execution_id)
    return [msgspec.convert(dict(record), StepSummary) for record in records]


async def read_problems(database: Database) -> list[ReadProblem]:
    """Return the runs whose history the mirror cannot read, the oldest problem first."""
    records = await database.fetch(sql.query("problems"))
    return [msgspec.convert(dict(record), ReadProblem) for record in records]


async def read_progress(database: Database, namespace: str, workflow_id: str, run_id: str) -> ReadProgress:
    """Return how far the mirror has read a playbook's workflow, whose last run is ``run_id``."""
    records = [dict(record) for record in await database.fetch(sql.query("read_progress"), namespace, workflow_id)]
    problems = [msgspec.convert(record, ReadProblem) for record in records if record["problem"] is not None]
    is_known = any(record["run_id"] == run_id for record in records)
    return ReadProgress(is_known and not problems and all(record["is_closed"] for record in records), problems)


class EventTail:
    """Reads the events of one execution as they are stored, each once.

    An event may be stored after one that happened later: the attempts of a call are stored when the call has ended. So
    a tail reads by ``position``, which rises in the order of storing. Events that a crash of Postgres undid are stored
    again: they are recognised by their ``stream_version``, which rises within a stream. ``has_ended`` is set once the
    last event has been read.
    """

    def __init__(self, execution_id: int) -> None:
        self._execution_id = execution_id
        self.has_ended = False
        self._last_end_id = 0
        self._position = 0
        self._versions: dict[str, int] = {}

    async def read(self, database: Database) -> list[Event]:
        """Return the new events since the last call, in the order in which they happened."""
        records = await database.fetch(sql.query("events_since"), self._execution_id, self._position)
        new_records = [
            record for record in records if record["stream_version"] > self._versions.get(record["stream_id"], 0)
        ]
        for record in records:
            self._position = max(self._position, record["position"])
            self._note_end(record["event_id"], record["event_type"])
            stream = record["stream_id"]
            self._versions[stream] = max(self._versions.get(stream, 0), record["stream_version"])
        return [_event(record) for record in new_records]

    def _note_end(self, id_: int, event_type: str) -> None:
        if id_ > self._last_end_id and event_type in (RESUMED, *PLAYBOOK_ENDS):
            self._last_end_id, self.has_ended = id_, event_type in PLAYBOOK_ENDS


def _execution(record: asyncpg.Record) -> Execution:
    return msgspec.convert(dict(record), Execution)


def _event(record: asyncpg.Record) -> Event:
    columns = {name: record[name] for name in Event.__struct_fields__}
    for name in ("context", "result", "meta"):
        columns[name] = columns[name] and msgspec.json.decode(columns[name])
    return msgspec.convert(columns, Event)
