"""The mirror as a service: it finds what runs, survives a stop, and adds nothing twice."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import asyncpg
import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.converter import (
    ExternalStorage,
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
)
from temporalio.service import RPCError

from noetl_temporal.ids import new_execution_id
from noetl_temporal.mirror.raw import WorkflowRun
from noetl_temporal.mirror.rebuild import rebuild
from noetl_temporal.mirror.reconcile import reconcile
from noetl_temporal.mirror.service import follow_execution, mirroring
from noetl_temporal.mirror.store import Store
from noetl_temporal.payloads.codec import data_converter
from noetl_temporal.stack.addresses import Addresses
from tests.mirror.conftest import Log, Scripts, scripted_worker
from tests.mirror.scripted import call, domain_event, loop_run, playbook

REPORT = {
    "report": {
        "outcome": {"status": "ok", "result": {"n": 1}},
        "attempts": [{"number": 1, "started": 0, "ended": 40, "status": "ok"}],
    }
}


def _lines(execution_id: int) -> list[dict[str, Any]]:
    """Three calls, each with an event before it, and a loop with one."""
    calls = [
        call(execution_id, 1, REPORT, (domain_event("ctx.updated", n, "COMPLETED"),), id=f"fetch/1:page:{n}")
        for n in range(3)
    ]
    return [*calls[:2], {"do": "loop", "run": loop_run(execution_id, calls[2:])}]


ROWS = 3 + 3 * 2 + 1
"""Of those lines: a row for each event, two for each attempt, and the end."""


async def _eventually(check: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await check():
            await asyncio.sleep(0.02)


async def _has_ended(log: Log, execution_id: int) -> bool:
    return len(await log.rows(execution_id)) == ROWS


async def test_a_mirror_finds_runs_and_logs_them_while_they_run(
    scripts: Scripts, dsn: str, log: Log, execution_id: int
) -> None:
    async def is_logged() -> bool:
        return len(await log.rows(execution_id)) == ROWS - 1

    async with mirroring(scripts.client, dsn):
        handle = await scripts.start(execution_id, *_lines(execution_id), {"do": "sleep", "seconds": 600})
        await _eventually(is_logged)
        await handle.terminate()
        await _eventually(lambda: _has_ended(log, execution_id))


async def test_runs_take_turns_when_polls_are_few(scripts: Scripts, dsn: str, log: Log) -> None:
    ids = [new_execution_id() for _ in range(4)]
    async with mirroring(scripts.client, dsn, max_polls=1):
        waiting = await scripts.start(new_execution_id(), {"do": "sleep", "seconds": 600})
        for id_ in ids:
            await scripts.start(id_, *_lines(id_))
        for id_ in ids:
            await _eventually(lambda id_=id_: _has_ended(log, id_))  # type: ignore[misc]
    await waiting.terminate()


async def test_a_mirror_that_restarts_continues(scripts: Scripts, dsn: str, log: Log, execution_id: int) -> None:
    lines = _lines(execution_id)

    async def has_begun() -> bool:
        return bool(await log.rows(execution_id))

    async with mirroring(scripts.client, dsn):
        handle = await scripts.start(execution_id, lines[0], {"do": "pause"}, *lines[1:])
        await _eventually(has_begun)
    assert not await _has_ended(log, execution_id)
    async with mirroring(scripts.client, dsn):
        await handle.signal("resume")
        await _eventually(lambda: _has_ended(log, execution_id))


async def test_two_mirrors_of_one_run_log_it_once(scripts: Scripts, dsn: str, log: Log, execution_id: int) -> None:
    handle = await scripts.start(execution_id, *_lines(execution_id))
    await asyncio.gather(*(follow_execution(scripts.client, dsn, handle.id) for _ in range(3)))
    assert await _has_ended(log, execution_id)
    await follow_execution(scripts.client, dsn, handle.id)
    assert await _has_ended(log, execution_id)


async def test_history_is_stored_as_the_server_has_it(scripts: Scripts, dsn: str, log: Log, execution_id: int) -> None:
    handle = await scripts.start(execution_id, *_lines(execution_id))
    await follow_execution(scripts.client, dsn, handle.id)
    query = "SELECT proto FROM noetl.history WHERE workflow_id = $1 ORDER BY event_id"
    stored_events = [record["proto"] for record in await log.database.fetch(query, handle.id)]
    # Protobuf writes maps in any order, so the messages are compared, not their bytes.
    assert list(map(HistoryEvent.FromString, stored_events)) == list((await handle.fetch_history()).events)


async def test_the_log_can_be_derived_again_from_history(
    scripts: Scripts, dsn: str, log: Log, execution_id: int
) -> None:
    for id_ in (execution_id, new_execution_id()):
        handle = await scripts.start(id_, *_lines(id_))
        await follow_execution(scripts.client, dsn, handle.id)
    events, executions = await log.everything(), await _executions(log)
    await log.database.execute("UPDATE noetl.event SET status = 'wrong'; UPDATE noetl.execution SET status = 'wrong'")
    assert (await rebuild(dsn)).rows == len(events) == 2 * ROWS
    assert await log.everything() == events
    assert await _executions(log) == executions


async def _executions(log: Log) -> list[dict[str, Any]]:
    records = await log.database.fetch("SELECT * FROM noetl.execution ORDER BY execution_id")
    storing = "updated_at", "events"
    return [{name: value for name, value in record.items() if name not in storing} for record in records]


async def test_missing_events_are_read_again(
    scripts: Scripts, dsn: str, log: Log, store: Store, execution_id: int
) -> None:
    handle = await scripts.start(execution_id, *_lines(execution_id))
    await follow_execution(scripts.client, dsn, handle.id)
    before = await log.everything()
    run = WorkflowRun("default", handle.id, handle.first_execution_run_id or "", "noetl.playbook")
    assert run not in [gap.run for gap in await reconcile(scripts.client, store)]
    await log.database.execute("DELETE FROM noetl.history WHERE workflow_id = $1 AND event_id > 5", handle.id)
    await log.database.execute(
        "DELETE FROM noetl.event WHERE stream_id = $1 AND stream_version > 5", "/".join(run[1:3])
    )
    gaps = {gap.run: gap for gap in await reconcile(scripts.client, store)}
    assert (gaps[run].stored.events, gaps[run].expected) == (5, len((await handle.fetch_history()).events))
    await follow_execution(scripts.client, dsn, handle.id)
    assert await log.everything() == before


@pytest.mark.parametrize(
    "spoil",
    [
        "UPDATE noetl.cursor SET is_closed = false",
        "UPDATE noetl.history SET event_type = 'WORKFLOW_TASK_STARTED' WHERE event_type ~ 'EXECUTION_COMPLETED'",
    ],
)
async def test_a_run_that_closed_and_is_not_stored_to_its_end_is_found(
    spoil: str, scripts: Scripts, dsn: str, log: Log, store: Store, execution_id: int
) -> None:
    handle = await scripts.start(execution_id, *_lines(execution_id))
    await follow_execution(scripts.client, dsn, handle.id)
    run = WorkflowRun("default", handle.id, handle.first_execution_run_id or "", "noetl.playbook")
    assert run not in [gap.run for gap in await reconcile(scripts.client, store)]
    await log.database.execute(spoil)
    assert run in [gap.run for gap in await reconcile(scripts.client, store)]


async def test_a_playbook_is_in_the_catalog_once_for_each_content(scripts: Scripts, dsn: str, log: Log) -> None:
    for content in ("kind: Playbook", "kind: Playbook", "kind: Playbook # two"):
        id_ = new_execution_id()
        history = playbook(id_, content=content)
        handle = await scripts.client.start_workflow(
            "noetl.playbook", history, id=f"c/{id_}", task_queue="mirror-tests"
        )
        await follow_execution(scripts.client, dsn, handle.id)
    records = await log.database.fetch("SELECT path, version, kind, content FROM noetl.catalog ORDER BY version")
    assert [tuple(record) for record in records] == [
        ("tests/scripted", 1, "playbook", "kind: Playbook"),
        ("tests/scripted", 2, "playbook", "kind: Playbook # two"),
    ]


OUTAGES = 100
"""asyncpg raises another error depending on what a connection does when it is lost."""


async def test_a_mirror_waits_for_an_unavailable_database(
    scripts: Scripts, dsn: str, log: Log, servers: Addresses, execution_id: int
) -> None:
    async with mirroring(scripts.client, dsn):
        await scripts.start(execution_id, {"do": "sleep", "seconds": 0.5}, *_lines(execution_id))
        admin = await asyncpg.connect(servers.postgres)
        for _ in range(OUTAGES):
            await admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND pid <> $2",
                dsn.rpartition("/")[2],
                log.database.get_server_pid(),
            )
            await asyncio.sleep(0.01)
        await admin.close()
        await _eventually(lambda: _has_ended(log, execution_id))


class _MemoryStorage(StorageDriver):
    """External storage in memory."""

    def __init__(self) -> None:
        self.kept_values: dict[str, bytes] = {}
        self.is_away = False

    def name(self) -> str:
        return "shelf"

    async def store(self, context: StorageDriverStoreContext, payloads: Sequence[Payload]) -> list[StorageDriverClaim]:
        claims: list[StorageDriverClaim] = []
        for payload in payloads:
            key = str(len(self.kept_values))
            self.kept_values[key] = payload.SerializeToString()
            claims.append(StorageDriverClaim(claim_data={"key": key}))
        return claims

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        if self.is_away:
            raise ConnectionRefusedError("nobody listens")
        return [Payload.FromString(self.kept_values[claim.claim_data["key"]]) for claim in claims]


@pytest.fixture
def storage_driver() -> _MemoryStorage:
    return _MemoryStorage()


@pytest.fixture
async def storing_client(servers: Addresses, storage_driver: _MemoryStorage) -> Client:
    """A client that puts all but the smallest values into external storage."""
    storage = ExternalStorage(drivers=[storage_driver], payload_size_threshold=300)
    return await Client.connect(
        servers.temporal, data_converter=dataclasses.replace(data_converter(), external_storage=storage)
    )


async def _run_with_stored_values(client: Client, execution_id: int) -> str:
    big = {"report": {**REPORT["report"], "outcome": {"status": "ok", "result": {"text": "x" * 2000}}}}
    line = call(execution_id, 1, big, (domain_event("task.started", 1),))
    async with scripted_worker(client, "mirror-shelved"):
        history = playbook(execution_id, line)
        id_ = f"shelved/{execution_id}"
        await client.execute_workflow("noetl.playbook", history, id=id_, task_queue="mirror-shelved")
    return id_


async def test_values_in_external_storage_are_read_with_the_clients_converter(
    storing_client: Client, dsn: str, log: Log, execution_id: int
) -> None:
    id_ = await _run_with_stored_values(storing_client, execution_id)
    await follow_execution(storing_client, dsn, id_)
    rows = {row["event_type"]: row for row in await log.rows(execution_id)}
    assert rows["task.attempt.done"]["result"]["context"] == {"text": "x" * 2000}
    before = await log.everything()
    await rebuild(dsn, storing_client.data_converter)
    assert await log.everything() == before


async def test_an_unavailable_storage_is_an_incident_until_it_is_available(
    storing_client: Client, storage_driver: _MemoryStorage, dsn: str, log: Log, execution_id: int
) -> None:
    storage_driver.is_away = True
    running = asyncio.create_task(_run_with_stored_values(storing_client, execution_id))
    handle = storing_client.get_workflow_handle(f"shelved/{execution_id}")

    async def failed() -> bool:
        try:
            events = (await handle.fetch_history()).events
        except RPCError:
            return False
        return any(event.HasField("workflow_task_failed_event_attributes") for event in events)

    await _eventually(failed)
    storage_driver.is_away = False
    await running
    await follow_execution(storing_client, dsn, handle.id)
    rows = [row for row in await log.rows(execution_id) if row["event_type"].startswith("incident.")]
    assert [row["event_type"] for row in rows] == ["incident.opened", "incident.resolved"]
    assert rows[0]["meta"]["incident"]["cause"] == "storage"
    assert "nobody listens" in rows[0]["error"]


async def test_a_playbooks_last_row_is_stored_after_all_of_its_loops(
    scripts: Scripts, dsn: str, log: Log, execution_id: int
) -> None:
    handle = await scripts.start(execution_id, *_lines(execution_id))
    await handle.result()
    await follow_execution(scripts.client, dsn, handle.id)
    query = "SELECT event_type FROM noetl.event WHERE execution_id = $1 ORDER BY position DESC LIMIT 1"
    assert await log.database.fetchval(query, execution_id) == "playbook.completed"
