"""A run that is announced is read at once; the list would have it a little later."""

from __future__ import annotations

import asyncio

import pytest
from temporalio.client import Client

from noetl_temporal.mirror.announcements import announce
from noetl_temporal.mirror.raw import WorkflowRun
from noetl_temporal.mirror.service import Mirror, mirroring
from noetl_temporal.naming import PLAYBOOK_WORKFLOW
from tests.mirror.conftest import Log, Scripts
from tests.mirror.scripted import call, domain_event

ONE_EVENT = domain_event("ctx.updated", 1, "COMPLETED")


@pytest.fixture(autouse=True)
def no_list(monkeypatch: pytest.MonkeyPatch) -> None:
    async def list_runs(_mirror: Mirror, _since: object) -> set[WorkflowRun]:
        return set()

    monkeypatch.setattr(Mirror, "_list_runs", list_runs)


async def _logged_until_read(log: Log, run: WorkflowRun, execution_id: int) -> None:
    """Announce it until the log has its row: nobody knows when the mirror has begun to listen."""
    while ("ctx.updated", "COMPLETED") not in await log.story(execution_id):
        await announce(log.database, run)
        await asyncio.sleep(0.05)


async def test_a_run_that_is_announced_is_read(
    client: Client, scripts: Scripts, dsn: str, log: Log, execution_id: int
) -> None:
    handle = await scripts.start(execution_id, call(execution_id, 1, {}, (ONE_EVENT,)))
    run = WorkflowRun(client.namespace, handle.id, handle.first_execution_run_id or "", PLAYBOOK_WORKFLOW)
    async with asyncio.timeout(60), mirroring(client, dsn):
        await _logged_until_read(log, run, execution_id)


async def test_unknown_runs_and_a_lost_connection_are_ignored(
    client: Client, scripts: Scripts, dsn: str, log: Log, execution_id: int
) -> None:
    handle = await scripts.start(execution_id, call(execution_id, 1, {}, (ONE_EVENT,)))
    run = WorkflowRun(client.namespace, handle.id, handle.first_execution_run_id or "", PLAYBOOK_WORKFLOW)
    async with asyncio.timeout(60), mirroring(client, dsn):
        listening = "SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = current_database()"
        while (pid := await log.database.fetchval(listening)) is None:
            await asyncio.sleep(0.05)
        for payload in ("", "[]", "{}", '{"namespace": 1}'):
            await log.database.execute("SELECT pg_notify('noetl_run', $1)", payload)
        await announce(log.database, run._replace(namespace="elsewhere", workflow_id="nothing"))
        await log.database.execute("SELECT pg_terminate_backend($1)", pid)
        await _logged_until_read(log, run, execution_id)
    assert await log.database.fetchval("SELECT count(*) FROM noetl.cursor") == 1
