"""Rebuilds the event log from noetl.history and, for pauses of calls, from noetl.call_pause."""

from __future__ import annotations

from typing import NamedTuple

from temporalio.converter import DataConverter

from noetl_temporal.mirror import sql
from noetl_temporal.mirror.call_pauses import restore_pauses
from noetl_temporal.mirror.raw import WorkflowRun, from_row
from noetl_temporal.mirror.store import Connection, Store, open_store

__all__ = ["RebuildResult", "rebuild"]

BATCH = 1000
"""The number of history events that are read at a time."""


class RebuildResult(NamedTuple):
    """The number of rows in noetl.event, and of pruned executions whose rows are frozen, so not derived again."""

    rows: int
    frozen: int


async def rebuild(dsn: str, converter: DataConverter = DataConverter.default) -> RebuildResult:
    """Replace the rows of noetl.event and noetl.execution by those that this version derives, in one transaction.

    The rows of pruned executions are kept, and so are the catalog and its ids. Mirrors wait for the end.
    ``converter`` reads payloads in external storage.
    """
    async with open_store(dsn, converter) as store, store.pool.acquire() as connection, connection.transaction():
        await connection.execute(sql.query("lock_all_cursors"))
        await connection.execute(sql.query("delete_events"))
        for record in await connection.fetch(sql.query("all_runs")):
            await _derive_rows(store, connection, WorkflowRun(*record))
        await restore_pauses(connection)
        rows = await connection.fetchval("SELECT count(*) FROM noetl.event")
        return RebuildResult(rows, await connection.fetchval(sql.query("count_pruned")))


async def _derive_rows(store: Store, connection: Connection, run: WorkflowRun) -> None:
    """Derive the rows of a run from its stored history, in batches, and store them with the last state."""
    state, position = None, 0
    while True:
        history_events = await connection.fetch(sql.query("history_after"), *run[:3], position, BATCH)
        events = [from_row(record["proto"]) for record in history_events]
        if not events:
            break
        state = await store.add_rows(connection, run, state, events)
        position = events[-1].event_id
    if state is not None:
        await store.save_state(connection, run, state)
