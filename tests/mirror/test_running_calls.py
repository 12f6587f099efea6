"""Calls in progress: beside other mirrors, beside runs that cannot be read, and paused in Temporal itself."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from noetl_temporal.ids import new_execution_id
from noetl_temporal.mirror import running_calls
from noetl_temporal.mirror.call_pauses import CallPause
from noetl_temporal.mirror.rebuild import rebuild
from noetl_temporal.mirror.running_calls import CallSnapshot, RunningCalls
from noetl_temporal.mirror.service import mirroring
from noetl_temporal.mirror.store import Store
from tests.audit import audit_execution
from tests.mirror.built import START, begin, playbook
from tests.mirror.conftest import Log, Scripts
from tests.mirror.scripted import call, domain_event
from tests.mirror.story import Story

STARTED = domain_event("playbook.execution.requested", 1, "PENDING")


NOW = datetime.fromtimestamp(START / 1000, UTC)
WAITING = """
SELECT count(DISTINCT pid) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE NOT granted AND datname = current_database()
"""


def columns_of(number: int, task: int = 1) -> dict[str, Any]:
    call_fields = {"step": "fetch", "task": "page", "tool": "http", "iteration": number, "page": None}
    return {"call_id": f"call {number}", "task_event_id": task, **call_fields}


def snapshot_of(*statuses: str) -> CallSnapshot:
    return CallSnapshot(NOW, [{**columns_of(at), "attempt": 1, "status": status} for at, status in enumerate(statuses)])


async def test_a_run_that_cannot_be_read_does_not_hide_others(
    scripts: Scripts, dsn: str, log: Log, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(running_calls, "MAX_RUNS", 1)
    monkeypatch.setattr(running_calls, "MIN_CALL_SECONDS", 0.0)
    monkeypatch.setattr(running_calls, "UPDATE_SECONDS", 0.05)
    runs: dict[str, Any] = {}
    async with mirroring(scripts.client, dsn):
        for name, answer in (("hidden", {"unreadable": True}), ("seen", {})):
            id_ = new_execution_id()
            runs[name] = await scripts.start(id_, call(id_, 1, {"seconds": 60, **answer}, (STARTED,)))
            async with asyncio.timeout(30):
                while not (await runs[name].describe()).raw_description.pending_activities:
                    await asyncio.sleep(0.05)
        query = "SELECT count(*) FROM noetl.running_attempt WHERE workflow_id = $1"
        async with asyncio.timeout(30):
            while not await log.database.fetchval(query, runs["seen"].id):
                await asyncio.sleep(0.05)
        for run in runs.values():
            await run.terminate()
    assert "cannot look at calls in progress" not in caplog.text


async def test_two_mirrors_that_show_the_same_calls_do_not_deadlock(scripts: Scripts, store: Store) -> None:
    history = playbook(7)
    begin(history, Story(history.now))
    await store.ingest(history.run, history.events)
    calls = snapshot_of(*["STARTED"] * 5)
    reversed_calls = CallSnapshot(NOW, calls.attempts[::-1])
    mirrors = [RunningCalls(scripts.client, store, ()) for _ in range(2)]
    await mirrors[0].store_snapshot(history.run, calls)
    async with store.pool.acquire() as other, other.transaction():
        await other.execute("SELECT FROM noetl.running_attempt WHERE call_id = 'call 2' FOR UPDATE")
        ingestion = asyncio.gather(
            mirrors[0].store_snapshot(history.run, calls), mirrors[1].store_snapshot(history.run, reversed_calls)
        )
        async with asyncio.timeout(20):  # a transaction would not see new sessions
            while await store.pool.fetchval(WAITING) < 2:
                await asyncio.sleep(0.02)
    await ingestion


async def test_an_execution_with_a_call_that_is_paused_in_temporal_is_paused(
    scripts: Scripts, dsn: str, store: Store
) -> None:
    history = playbook(7)
    begin(history, Story(history.now))
    await store.ingest(history.run, history.events)

    async def status() -> str:
        return str(await store.pool.fetchval("SELECT status FROM noetl.execution WHERE execution_id = 7"))

    calls = RunningCalls(scripts.client, store, (asyncpg.PostgresError,))
    assert await status() == "RUNNING"
    await calls.store_snapshot(history.run, snapshot_of("PAUSED", "PAUSED"))
    assert await status() == "PAUSED"
    await rebuild(dsn)
    assert await status() == "PAUSED"
    await calls.store_snapshot(history.run, snapshot_of("PAUSED", "STARTED"))
    assert await status() == "PAUSED"
    await calls.store_snapshot(history.run, snapshot_of("STARTED", "STARTED"))
    assert await status() == "RUNNING"

    await calls.store_snapshot(history.run, snapshot_of("PAUSED", "PAUSED"))
    await RunningCalls(scripts.client, store, ()).update()
    assert await status() == "RUNNING", "what a mirror before this one has shown is forgotten"

    await calls.store_snapshot(history.run, snapshot_of("STARTED"))
    await calls.store_snapshot(history.run, snapshot_of("PAUSED"))
    history.add("WORKFLOW_EXECUTION_TERMINATED", reason="enough", identity="ann")
    await store.ingest(history.run, history.events)
    assert await status() == "TERMINATED"
    await calls.store_snapshot(history.run, snapshot_of())
    assert await status() == "TERMINATED"


async def test_the_pause_of_a_call_and_its_end_are_in_the_log_once(
    scripts: Scripts, dsn: str, store: Store, log: Log
) -> None:
    """However often and by how many mirrors they are seen, and a rebuild has them again."""
    history = playbook(7)
    task = begin(history, Story(history.now))
    await store.ingest(history.run, history.events)
    mirrors = [RunningCalls(scripts.client, store, ()) for _ in range(2)]

    async def at(second: int, *paused_calls: int) -> None:
        """Both mirrors look at two calls in progress; these have been paused since their second."""
        snapshot = snapshot_of("STARTED", "STARTED")
        snapshot.at += timedelta(seconds=second)
        for number, since in enumerate(paused_calls):
            pause = CallPause(columns_of(number, task), NOW + timedelta(seconds=since), "ann", "why")
            snapshot.pauses.extend([pause] if since else [])
        for mirror in (*mirrors, *mirrors):
            await mirror.store_snapshot(history.run, snapshot)

    await at(1)
    await at(5, 2, 2)
    await at(6, 2)
    await at(8, 0, 7)
    await mirrors[0].store_snapshot(history.run, snapshot_of("STARTED"))
    rows = [row for row in await log.rows(7) if row["event_type"] in ("task.paused", "task.resumed")]
    attempt_rows = [(row["event_type"], row["event_time"] - NOW, row["meta"]["iteration"]) for row in rows]
    assert attempt_rows == [
        ("task.paused", timedelta(seconds=2), 0),
        ("task.paused", timedelta(seconds=2), 1),
        ("task.resumed", timedelta(seconds=6), 1),
        ("task.paused", timedelta(seconds=7), 1),
        ("task.resumed", timedelta(seconds=8), 0),
    ]
    assert [row["parent_event_id"] for row in rows] == [task, task, rows[1]["event_id"], task, rows[0]["event_id"]]
    assert (rows[0]["meta"]["by"], rows[0]["meta"]["reason"], rows[0]["status"]) == ("ann", "why", "PAUSED")
    before = await log.everything()
    await rebuild(dsn)
    assert await log.everything() == before
    history.now += 9_000
    history.add("WORKFLOW_EXECUTION_TERMINATED", reason="enough", identity="ann")
    await store.ingest(history.run, history.events)
    await mirrors[1].store_snapshot(history.run, snapshot_of())
    assert [row["event_type"] for row in await log.rows(7)][-1] == "playbook.cancelled"
    assert await audit_execution(dsn, 7) == []
