"""The store: whatever the batches, and however often they come, the log is the same."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from noetl_temporal.mirror.raw import WorkflowRun
from noetl_temporal.mirror.store import ConflictError, GapError, Store, UnknownExecutionError, open_store
from tests.mirror.conftest import Log
from tests.mirror.recorded import RecordedRun, read

Batch = tuple[WorkflowRun, list[Any]]


async def _ingest(store: Store, batches: list[Batch]) -> None:
    for run, events in batches:
        await store.ingest(run, events)


async def _log_of(dsn: str, batches: list[Batch]) -> tuple[list[dict[str, Any]], list[tuple[Any, ...]]]:
    """The log that batches leave in a database that was empty: events, and executions."""
    connection = await asyncpg.connect(dsn)
    await connection.execute("DELETE FROM noetl.event; DELETE FROM noetl.execution; DELETE FROM noetl.cursor")
    async with open_store(dsn) as store:
        await _ingest(store, batches)
    events = await Log(connection).everything()
    query = (
        "SELECT execution_id, status, last_event_id, last_event_type, end_time, error FROM noetl.execution ORDER BY 1"
    )
    executions = [tuple(record) for record in await connection.fetch(query)]
    await connection.close()
    return events, executions


def _whole(runs: list[RecordedRun]) -> list[Batch]:
    return [(event.run, event.events()) for event in runs]


@given(data=st.data())
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_batches_in_any_number_give_one_log(dsn: str, data: st.DataObject) -> None:
    whole = _whole(read("pages"))
    cuts = data.draw(st.lists(st.integers(1, 30), max_size=4).map(sorted), label="cuts")
    parts = [
        (run, events[start:end]) for run, events in whole for start, end in zip([0, *cuts], [*cuts, None], strict=True)
    ]
    repeated = data.draw(st.lists(st.integers(0, len(parts) - 1), max_size=3), label="repeated")
    batches = [part for place, part in enumerate(parts) for _ in range(1 + repeated.count(place)) if part[1]]
    assert asyncio.run(_log_of(dsn, batches)) == asyncio.run(_log_of(dsn, whole))


async def test_a_batch_is_stored_completely_or_not_at_all(store: Store, log: Log) -> None:
    playbook, loop = read("pages")
    with pytest.raises(UnknownExecutionError, match="before the playbook"):
        await store.ingest(loop.run, loop.events())
    assert await log.database.fetchval("SELECT count(*) FROM noetl.history") == 0
    await _ingest(store, _whole([playbook, loop]))
    assert await log.database.fetchval("SELECT count(*) FROM noetl.history") == len(playbook.events()) + len(
        loop.events()
    )


async def test_a_batch_after_a_gap_is_refused(store: Store) -> None:
    [flaky] = read("flaky")
    await store.ingest(flaky.run, flaky.events()[:3])
    with pytest.raises(GapError, match="stored up to 3, read 5 for 4"):
        await store.ingest(flaky.run, flaky.events()[4:])


async def test_a_batch_with_a_gap_is_refused(store: Store) -> None:
    [flaky] = read("flaky")
    with pytest.raises(GapError, match="stored up to 0, read 4 for 3"):
        await store.ingest(flaky.run, [*flaky.events()[:2], *flaky.events()[3:]])


@pytest.mark.parametrize("is_rewound", [False, True])
async def test_an_event_that_is_stored_as_another_is_an_error(store: Store, log: Log, is_rewound: bool) -> None:
    [flaky] = read("flaky")
    await store.ingest(flaky.run, flaky.events())
    await log.database.execute("UPDATE noetl.history SET event_type = 'WORKFLOW_TASK_SCHEDULED' WHERE event_id = 5")
    if is_rewound:
        await store.rewind(flaky.run)
    with pytest.raises(ConflictError, match=r"event 5 is \w+ at the server and stored as WORKFLOW_TASK_S"):
        await store.ingest(flaky.run, flaky.events())


async def test_links_are_remembered_with_the_rows(store: Store) -> None:
    playbook, loop = read("pages")
    assert await store.ingest(playbook.run, playbook.events()) == [loop.run]
    assert await store.open_runs("default") == [loop.run]


async def test_upstreams_check_holds_results_in_its_shape(log: Log, store: Store) -> None:
    await _ingest(store, _whole(read("flaky")))
    with pytest.raises(asyncpg.CheckViolationError):
        await log.database.execute("""UPDATE noetl.event SET result = '{"rows": []}'""")
