"""Stores the history events of runs, and the rows derived from them, in Postgres.

One transaction stores a batch of events, the rows of noetl.event that they add, and the cursor's new position. It locks
the cursor first: if two mirrors read the same run, the second one finds the position advanced and adds nothing.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

import asyncpg
import msgspec
from temporalio.api.history.v1 import HistoryEvent
from temporalio.converter import DataConverter

from noetl_temporal.mirror import sql
from noetl_temporal.mirror.connection import Connection
from noetl_temporal.mirror.decryption import decrypt_event
from noetl_temporal.mirror.event_table import ConflictError, UnknownExecutionError, add_events, to_json
from noetl_temporal.mirror.frames import with_entries
from noetl_temporal.mirror.migrations import migrate
from noetl_temporal.mirror.origins import note_origin, note_parent
from noetl_temporal.mirror.owners import ReadEvent, keys_in, store_owner
from noetl_temporal.mirror.payloads import with_plain_values
from noetl_temporal.mirror.playbook import Playbook, playbook_of
from noetl_temporal.mirror.raw import WorkflowRun, continued_run, ends_run, from_row, linked_runs, to_row
from noetl_temporal.mirror.rows import fold, initial_state, needed_event_ids
from noetl_temporal.mirror.run_state import RunState
from noetl_temporal.mirror.storable import storable_text

__all__ = [
    "REMOVED",
    "ConflictError",
    "Connection",
    "GapError",
    "Store",
    "StoredHistory",
    "UnknownExecutionError",
    "UnreadRunError",
    "migrate",
    "open_store",
]

_SETTINGS = {
    "application_name": "noetl mirror",
    # A crash of Postgres may undo the last commits, cursor and rows together: they are read from Temporal again.
    "synchronous_commit": "off",
}


REMOVED = "its history was removed from the server before it was read completely"
"""The problem of a run that the server has removed."""

UNSTORABLE = "its workflow id has a character that Postgres cannot store: it is not mirrored"
"""The problem of a run with such an id, which only another client of Temporal can have started."""


class GapError(Exception):
    """Events are missing between those stored and those read of a run: read the run again from its start."""


class UnreadRunError(Exception):
    """A run was read before ``run``, which it continues, had been read to its end."""

    def __init__(self, run: WorkflowRun) -> None:
        super().__init__(f"{run.workflow_id} run {run.run_id} must be read completely first")
        self.run = run


class StoredHistory(NamedTuple):
    """The stored part of a run: whether it was read to its end, the number of its events, and whether the last one
    closes the run.
    """

    is_closed: bool
    events: int
    has_end: bool


class _Cursor(NamedTuple):
    position: int
    is_closed: bool
    state: RunState | None


class Store:
    """The mirror's tables. ``converter`` reads payloads that are encoded or in external storage."""

    def __init__(self, pool: asyncpg.Pool, converter: DataConverter) -> None:
        self.pool = pool
        self.converter = converter

    async def add_runs(self, runs: Sequence[WorkflowRun]) -> list[WorkflowRun]:
        """Add cursors for runs that must be read, and return the runs that had none. A run with an id that cannot be
        stored is recorded as a problem and not returned.
        """
        async with self.pool.acquire() as connection:
            return await _add_runs(connection, runs)

    async def open_runs(self, namespace: str) -> list[WorkflowRun]:
        """Return the runs that were not read to their end."""
        return [WorkflowRun(*record) for record in await self.pool.fetch(sql.query("open_runs"), namespace)]

    async def rewind(self, run: WorkflowRun) -> None:
        """Mark a run to be read again from its start. Its stored events and rows stay."""
        await self.pool.execute(sql.query("rewind"), *run)

    async def stored_histories(self, runs: Sequence[WorkflowRun]) -> dict[WorkflowRun, StoredHistory]:
        """Return the stored part of each run, also of runs without a cursor, but not of those with an id that cannot be
        stored.
        """
        records = await self.pool.fetch(sql.query("stored_histories"), *_columns_of(list(filter(_is_storable, runs))))
        return {WorkflowRun(*record[:4]): StoredHistory(*record[4:]) for record in records}

    async def give_up(self, run: WorkflowRun) -> None:
        """Close the cursor of a run that the server has removed. If the run was not read to its end, that is stored as
        its problem.
        """
        await self.pool.execute(sql.query("give_up"), *run, REMOVED)

    async def note_problem(self, run: WorkflowRun, problem: str) -> None:
        """Store why a run cannot be read further; cleared when reading continues."""
        await self.pool.execute(sql.query("note_problem"), *run, storable_text(problem))

    async def ingest(self, run: WorkflowRun, events: Sequence[HistoryEvent]) -> list[WorkflowRun]:
        """Store a whole batch of the run's events. Returns the runs to which it links, except those that cannot be
        stored.

        Events that are already stored add nothing, and must equal the stored ones.
        Raises ConflictError, GapError, UnknownExecutionError, UnreadRunError, UnreadableRunError, asyncpg's errors.
        """
        async with self.pool.acquire() as connection, connection.transaction():
            cursor = await _lock_cursor(connection, run)
            new_events = [event for event in events if event.event_id > cursor.position]
            run_links = linked_runs(run, events)
            if len(new_events) < len(events) or not cursor.position:
                await _check_types(connection, run, events)
            if new_events:
                _check_sequence(run, cursor.position, new_events)
                await connection.execute(
                    sql.query("add_history"), *run[:3], *zip(*map(to_row, new_events), strict=True)
                )
                await _add_runs(connection, run_links)
                await note_parent(connection, run, list(filter(_is_storable, run_links)))
                state = await self.add_rows(connection, run, cursor.state, new_events)
                await _move_cursor(connection, run, new_events, state)
        return list(filter(_is_storable, run_links))

    async def add_rows(
        self, connection: Connection, run: WorkflowRun, state: RunState | None, events: Sequence[HistoryEvent]
    ) -> RunState:
        """Derive event rows from a run's next events, which are stored in noetl.history, and store them. Returns the
        new state.

        The run's execution becomes the owner of the payloads to which the events refer.
        """
        read_events = [await self._read_event(event) for event in events]
        plain_events = [event.plain for event in read_events]
        if state is None:
            state = initial_state(run, plain_events[0], await self._previous_state(connection, run, events[0]))
            playbook = playbook_of(plain_events[0])
            if playbook is not None:
                await _add_execution(connection, playbook)
        earlier_events = await self._referenced_events(connection, run, plain_events)
        await add_events(connection, run, fold(state, plain_events, earlier_events))
        await store_owner(connection, state.execution_id, read_events)
        await note_origin(connection, run, events)
        return state

    async def _read_event(self, event: HistoryEvent) -> ReadEvent:
        """Return the event with its values, also those in external storage."""
        event = await decrypt_event(event, self.converter)
        plain_event = await with_plain_values(event, self.converter)
        return ReadEvent(event, *await with_entries(plain_event, self.converter), keys_in(plain_event))

    async def _previous_state(self, connection: Connection, run: WorkflowRun, event: HistoryEvent) -> RunState | None:
        """Return the last state of the run that continued as this one; None if there is no such run, or the server had
        removed it before it was read.
        """
        previous = continued_run(run, event)
        if previous is None:
            return None
        record = await connection.fetchrow(sql.query("state_of"), *previous[:3])
        if record is None or not record["is_closed"]:
            raise UnreadRunError(previous)
        return _state_of(record)

    async def save_state(self, connection: Connection, run: WorkflowRun, state: RunState) -> None:
        """Store the state of a run that was derived again."""
        await connection.execute(sql.query("save_state"), *run[:3], to_json(state))

    async def _referenced_events(
        self, connection: Connection, run: WorkflowRun, events: Sequence[HistoryEvent]
    ) -> dict[int, HistoryEvent]:
        """Return the events that these refer to, by id: these events themselves, and others from noetl.history."""
        by_id = {event.event_id: event for event in events}
        missing = sorted(needed_event_ids(events) - by_id.keys())
        stored_events = await self._stored_events(connection, run, missing) if missing else []
        return by_id | {event.event_id: event for event in stored_events}

    async def events_at(self, run: WorkflowRun, ids: Sequence[int]) -> list[HistoryEvent]:
        """Return the events of noetl.history with these ids, with their values."""
        async with self.pool.acquire() as connection:
            return await self._stored_events(connection, run, ids)

    async def _stored_events(self, connection: Connection, run: WorkflowRun, ids: Sequence[int]) -> list[HistoryEvent]:
        records = await connection.fetch(sql.query("history_events"), *run[:3], ids)
        events = [await decrypt_event(from_row(record["proto"]), self.converter) for record in records]
        return [await with_plain_values(event, self.converter) for event in events]


@asynccontextmanager
async def open_store(dsn: str, converter: DataConverter = DataConverter.default) -> AsyncGenerator[Store]:
    """Yield the mirror's tables in the database at ``dsn``, migrated to this version's schema."""
    await migrate(dsn)
    # A pool with a minimum logs a traceback each time that it cannot restore it.
    async with asyncpg.create_pool(dsn, min_size=0, max_size=8, server_settings=_SETTINGS) as pool:
        yield Store(pool, converter)


async def _add_runs(connection: Connection, runs: Sequence[WorkflowRun]) -> list[WorkflowRun]:
    for run in runs:
        if not _is_storable(run):
            await connection.execute(sql.query("give_up"), *map(storable_text, run), UNSTORABLE)
    storable_runs = list(filter(_is_storable, runs))
    records = await connection.fetch(sql.query("add_runs"), *_columns_of(storable_runs)) if storable_runs else []
    return [WorkflowRun(*record) for record in records]


def _is_storable(run: WorkflowRun) -> bool:
    """Whether Postgres can store the ids of the run: any client of Temporal may choose a workflow's id."""
    return run == tuple(map(storable_text, run))


async def _lock_cursor(connection: Connection, run: WorkflowRun) -> _Cursor:
    """Return the cursor, locked until the transaction ends."""
    record = await connection.fetchrow(sql.query("lock_cursor"), *run[:3])
    if record is None:
        await _add_runs(connection, [run])
        return await _lock_cursor(connection, run)
    return _Cursor(record["position"], record["is_closed"], _state_of(record))


async def _check_types(connection: Connection, run: WorkflowRun, events: Sequence[HistoryEvent]) -> None:
    """Raise ConflictError if an event has another type than the one that is stored with its id."""
    types = {row[0]: row[1] for row in map(to_row, events)}
    for record in await connection.fetch(sql.query("stored_types"), *run[:3], list(types)):
        id_, stored_type = record
        if stored_type != types[id_]:
            raise ConflictError(
                f"{run.workflow_id} run {run.run_id}: event {id_} is {types[id_]} at the server "
                f"and stored as {stored_type}"
            )


def _check_sequence(run: WorkflowRun, position: int, events: Sequence[HistoryEvent]) -> None:
    """Raise GapError unless the events follow the stored ones and each other without a gap."""
    for expected, event in enumerate(events, position + 1):
        if event.event_id != expected:
            raise GapError(
                f"{run.workflow_id} run {run.run_id}: stored up to {position}, read {event.event_id} for {expected}"
            )


def _state_of(record: asyncpg.Record) -> RunState | None:
    return msgspec.json.decode(record["state"], type=RunState) if record["state"] else None


async def _move_cursor(
    connection: Connection, run: WorkflowRun, events: Sequence[HistoryEvent], state: RunState
) -> None:
    values = events[-1].event_id, ends_run(events), to_json(state), state.execution_id
    await connection.execute(sql.query("move_cursor"), *run[:3], *values)


async def _add_execution(connection: Connection, playbook: Playbook) -> None:
    """Add the playbook to the catalog, as a new version if its text is new, and its execution as running."""
    await connection.execute(sql.query("lock_path"), playbook.path)
    catalog_id = await connection.fetchval(sql.query("find_catalog"), playbook.path, playbook.content)
    if catalog_id is None:
        meta = to_json(playbook.meta)
        catalog_id = await connection.fetchval(sql.query("add_catalog"), playbook.path, playbook.content, meta)
    values = playbook.execution_id, catalog_id, playbook.parent_execution_id, playbook.start_time, playbook.schedule
    await connection.execute(sql.query("add_execution"), *values)


def _columns_of(runs: Sequence[WorkflowRun]) -> tuple[list[str], ...]:
    return tuple([run[field] for run in runs] for field in range(len(WorkflowRun._fields)))
