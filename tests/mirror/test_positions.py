"""The positions of rows: a reader that tails an execution by them misses none."""

from __future__ import annotations

import asyncio

from noetl_temporal.mirror.event_table import add_events
from noetl_temporal.mirror.store import Store
from tests.mirror.conftest import Log
from tests.mirror.recorded import read, rows_of

NEW = "SELECT event_id, position FROM noetl.event WHERE execution_id = $1 AND position > $2 ORDER BY position"
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


async def test_no_row_is_missed_while_two_runs_of_an_execution_are_stored_at_once(store: Store, log: Log) -> None:
    playbook, loop = read("pages")
    events = playbook.events()
    await store.ingest(playbook.run, events[:5])
    rows = rows_of(playbook)
    execution_id, row_count = rows[0].execution_id, len(await log.rows(rows[0].execution_id))
    positions: list[int] = []
    last = 0

    async def look() -> None:
        nonlocal last
        for id_, position in await log.database.fetch(NEW, execution_id, last):
            positions.append(id_)
            last = position

    async def store_the_rest() -> None:
        async with store.pool.acquire() as connection, connection.transaction():
            await add_events(connection, playbook.run, rows[row_count:])

    async with store.pool.acquire() as slow:
        transaction = slow.transaction()
        await transaction.start()
        await add_events(slow, loop.run, rows_of(loop))
        other = asyncio.create_task(store_the_rest())
        while not other.done() and not await log.database.fetchval(WAITING):
            await asyncio.sleep(0.01)
        await look()
        await transaction.commit()
    await other
    await look()
    assert sorted(positions) == [row["event_id"] for row in await log.rows(execution_id)]
    assert len(positions) == len(rows) + len(rows_of(loop))


async def test_rows_that_are_stored_again_take_no_place_of_others(store: Store, log: Log) -> None:
    [run] = read("flaky")
    events = run.events()
    await store.ingest(run.run, events[:9])
    await store.ingest(run.run, events)
    positions = sorted(row["position"] for row in await log.rows(rows_of(run)[0].execution_id))
    assert positions == list(range(positions[0], positions[0] + len(positions)))
