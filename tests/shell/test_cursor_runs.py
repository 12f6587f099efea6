"""Cursor loops on real servers (semantics 24): over several runs and any loss a row is acknowledged once."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
from temporalio.api.history.v1 import HistoryEvent

from noetl_activities.credentials import CredentialSource
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, ToolContext, load_tools
from noetl_temporal.client import NoetlClient, RunHandle
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.worker import serving
from tests.shell.conftest import Shell
from tests.shell.servers import Site, proxy_to, site
from tests.shell.table import Base
from tests.shell.test_stored_once import submit, until
from tests.shell.worker_process import WorkerProcess, worker_process

LEASE = 3
LARGE = 100_000
CALL = 'noop, input: {n: "{{ iter.job.id }}"}'
CURSOR = """
  - step: drain
    loop:
      cursor:
        kind: postgres
        auth: pg_local
        claim: |
          UPDATE TABLE SET token = {{ lease.token }}, attempts = attempts + 1,
                 until = now() + {{ lease.seconds }} * interval '1 second'
          WHERE id IN (
            SELECT id FROM TABLE WHERE status = 'pending' AND (until IS NULL OR until < now())
            ORDER BY id LIMIT {{ __frame_max_rows }} FOR UPDATE SKIP LOCKED)
          RETURNING id, attempts
        RENEW
        ack: |
          WITH done AS (
            UPDATE TABLE SET status = {{ output.status }}, until = NULL
            WHERE id = {{ row.id }} AND token = {{ lease.token }} AND status = 'pending' RETURNING id)
          INSERT INTO TABLE_acks SELECT id, {{ lease.token }} FROM done
        release: |
          UPDATE TABLE SET until = NULL, token = NULL
          WHERE id = {{ row.id }} AND token = {{ lease.token }} AND status = 'pending'
        MORE
      iterator: job
      spec: {SPEC}
    tool: {kind: CALL}
"""
RENEW = """renew: |
          UPDATE TABLE SET until = now() + {{ lease.seconds }} * interval '1 second'
          WHERE id = {{ row.id }} AND token = {{ lease.token }}"""


class Jobs:
    """A table of rows to claim, with a log of its acknowledgements."""

    def __init__(self, connection: asyncpg.Connection[asyncpg.Record], table: str) -> None:
        self.connection = connection
        self.table = table

    def playbook(
        self, spec: str = "max_in_flight: 4", *, call: str = CALL, more: str = "on_row_error: ack", renew: str = RENEW
    ) -> str:
        text = CURSOR.replace("SPEC", f"{spec}").replace("RENEW", renew).replace("CALL", call).replace("MORE", more)
        return text.replace("TABLE", self.table)

    async def make(self, rows: int) -> None:
        lease = "token text, until timestamptz, attempts int default 0"
        await self.connection.execute(
            f"create table {self.table} (id int primary key, status text default 'pending', {lease})"
        )
        await self.connection.execute(f"create table {self.table}_acks (id int, token text)")
        await self.connection.execute(f"insert into {self.table} select generate_series(1, {rows})")

    async def acks(self) -> list[int]:
        return [row[0] for row in await self.connection.fetch(f"select id from {self.table}_acks order by id")]

    async def states(self) -> dict[int, tuple[str, str | None]]:
        records = await self.connection.fetch(f"select id, status, token from {self.table} order by id")
        return {row[0]: (row[1], row[2]) for row in records}

    async def count_claimed(self) -> int:
        sql = f"select count(*) from {self.table} where token is not null and status = 'pending'"
        return int(await self.connection.fetchval(sql))

    async def change_owner(self) -> list[int]:
        """Claim and acknowledge what has expired, as another claimer."""
        sql = (
            f"with done as (update {self.table} set token = 'other', status = 'other' where status = 'pending' and "
            f"until < now() returning id) insert into {self.table}_acks select id, 'other' from done returning id"
        )
        return [row[0] for row in await self.connection.fetch(sql)]


@pytest.fixture
async def jobs(servers: Addresses, base: Base) -> AsyncGenerator[Jobs]:
    connection = await asyncpg.connect(servers.playbooks)
    yield Jobs(connection, f"{base.table}_jobs")
    await connection.close()


@asynccontextmanager
async def working(
    servers: Addresses, answer: Callable[[Request, ToolContext], Any] = lambda _request, _context: "done"
) -> AsyncGenerator[NoetlClient]:
    """A client beside a worker whose tool ``noop`` answers so."""
    tools = {"noop": FakeTool("noop", answer), "postgres": load_tools()["postgres"]}
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=tools)
    async with serving(client.temporal, tools, CredentialSource(environment=servers.environment())):
        yield client


async def test_two_runs_over_one_table(servers: Addresses, jobs: Jobs) -> None:
    await jobs.make(40)
    async with working(servers) as client:
        workflow = jobs.playbook("max_in_flight: 3, frame: {max_rows: 2}")
        runs = [await Shell.submit(client, workflow) for _ in range(2)]
        reports = [await run.result() for run in runs]
    assert [report.status for report in reports] == ["completed", "completed"]
    assert sum(report.result["stats"]["success"] for report in reports) == 40
    assert all(report.result["stats"]["failed"] == 0 for report in reports)
    assert await jobs.acks() == list(range(1, 41))


async def test_a_limit_ends_the_claims(servers: Addresses, jobs: Jobs) -> None:
    await jobs.make(9)
    async with working(servers) as client:
        handle = await Shell.submit(client, jobs.playbook().replace("iterator: job", "iterator: job\n      limit: 5"))
        report = await handle.result()
    assert report.result["stats"]["total"] == 5
    assert len(await jobs.acks()) == 5
    assert await jobs.count_claimed() == 0


async def test_a_long_loop_claims_in_chunks(servers: Addresses, jobs: Jobs) -> None:
    """Each has a workflow and a history of its own."""
    await jobs.make(500)
    async with working(servers) as client:
        spec = "max_in_flight: 8, frame: {max_rows: 10, row_concurrency: 4}"
        handle = await Shell.submit(client, jobs.playbook(spec))
        report = await handle.result()
        children = [event async for event in handle.workflow.fetch_history_events() if is_child(event)]
    assert report.result["stats"] == {"total": 500, "success": 500, "failed": 0, "skipped": 0}
    assert await jobs.acks() == list(range(1, 501))
    assert len(children) > 1


def is_child(event: HistoryEvent) -> bool:
    return event.HasField("child_workflow_execution_started_event_attributes")


async def test_rows_that_are_stored_outside_of_history(servers: Addresses, jobs: Jobs) -> None:
    await jobs.make(4)
    large = "RETURNING id, attempts, repeat('x', 40000) AS text"
    counts: list[int] = []

    def answer(request: Request, _context: ToolContext) -> Any:
        counts.append(len(request.input["n"]))
        return "done"

    call = 'noop, input: {n: "{{ iter.job.text }}"}'
    async with working(servers, answer) as client:
        text = jobs.playbook("max_in_flight: 1, frame: {max_rows: 4}", call=call).replace(
            "RETURNING id, attempts", large
        )
        report = await (await Shell.submit(client, text)).result()
    assert report.result["stats"]["success"] == 4
    assert counts == [40_000] * 4
    assert await jobs.acks() == [1, 2, 3, 4]


async def test_a_row_that_fails_is_claimed_again_until_its_attempts_are_used_up(servers: Addresses, jobs: Jobs) -> None:
    """One fails always, one on its first two claims."""
    await jobs.make(6)

    async def answer(request: Request, _context: ToolContext) -> Any:
        row = int(request.input["n"])
        attempts = await jobs.connection.fetchval(f"select attempts from {jobs.table} where id = {row}")
        if row == 2 or (row == 4 and attempts < 3):
            return Outcome("error", error=ErrorInfo("exception", f"row {row} is broken"))
        return row

    spec = "max_in_flight: 1, frame: {max_attempts: 3}, policy: {failure: {mode: best_effort}}"
    async with working(servers, answer) as client:
        handle = await Shell.submit(client, jobs.playbook(spec, more="on_row_error: release"))
        report = await handle.result()
    assert report.status == "completed"
    assert report.result["stats"] == {"total": 10, "success": 5, "failed": 1, "skipped": 4}
    assert await jobs.acks() == list(range(1, 7))
    assert {row: status for row, (status, _) in (await jobs.states()).items() if status == "error"} == {2: "error"}


async def rows_are_given_back_after_a_cancel(servers: Addresses, jobs: Jobs, text: str, done: int) -> None:
    """The calls of 12 rows hang after ``done`` of them, and the run is cancelled then."""
    await jobs.make(12)
    has_begun = asyncio.Event()

    async def answer(request: Request, _context: ToolContext) -> Any:
        if int(request.input["n"]) > done:
            has_begun.set()
            await asyncio.sleep(60)
        return "done"

    async with working(servers, answer) as client:
        handle = await Shell.submit(client, text)
        await has_begun.wait()
        await handle.cancel("enough")
        async with asyncio.timeout(30):
            report = await handle.result()
        assert report.status == "cancelled"
    states = await jobs.states()
    assert await jobs.acks() == [row for row, (status, _) in states.items() if status == "ok"] != []
    assert {state for row, state in states.items() if row > done} == {("pending", None)}


async def test_a_cancelled_run_releases_its_rows(servers: Addresses, jobs: Jobs) -> None:
    text = jobs.playbook("max_in_flight: 2, frame: {max_rows: 3}")
    await rows_are_given_back_after_a_cancel(servers, jobs, text, done=3)


async def test_rows_of_a_terminated_run_come_back_when_their_lease_expires(servers: Addresses, jobs: Jobs) -> None:
    await jobs.make(4)
    stuck = asyncio.Event()

    async def answer(_request: Request, _context: ToolContext) -> Any:
        if not stuck.is_set():
            stuck.set()
            await asyncio.sleep(60)
        return "done"

    spec = f"max_in_flight: 2, frame: {{lease_seconds: {LEASE}}}"
    async with working(servers, answer) as client:
        first = await Shell.submit(client, jobs.playbook(spec))
        await stuck.wait()
        await first.workflow.terminate("gone")
        await until(lambda: has_expired_lease(jobs))
        second = await Shell.submit(client, jobs.playbook(spec))
        report = await second.result()
    assert report.status == "completed"
    assert await jobs.acks() == [1, 2, 3, 4]


async def test_a_running_call_renews_its_lease(servers: Addresses, jobs: Jobs) -> None:
    """It lasts for three leases, and nobody gets its row meanwhile."""
    await jobs.make(1)
    has_begun, taken_jobs = asyncio.Event(), list[int]()

    async def answer(_request: Request, _context: ToolContext) -> Any:
        has_begun.set()
        await asyncio.sleep(3 * LEASE)
        return "done"

    async with working(servers, answer) as client:
        spec = f"max_in_flight: 1, frame: {{lease_seconds: {LEASE}}}"
        handle = await Shell.submit(client, jobs.playbook(spec))
        await has_begun.wait()
        result = asyncio.create_task(handle.result())
        while not result.done():
            taken_jobs += await jobs.change_owner()
            await asyncio.sleep(0.2)
        assert (await result).result["stats"]["success"] == 1
    assert taken_jobs == []
    assert await jobs.acks() == [1]


async def test_a_renewal_that_can_never_succeed_has_a_reason(servers: Addresses, jobs: Jobs) -> None:
    await jobs.make(1)

    async def answer(_request: Request, _context: ToolContext) -> Any:
        await asyncio.sleep(60)

    async with working(servers, answer) as client, asyncio.timeout(40):
        spec = f"max_in_flight: 1, frame: {{lease_seconds: {LEASE}}}"
        text = jobs.playbook(spec, renew='renew: "UPDATE nowhere SET id = {{ row.id }}"')
        report = await (await Shell.submit(client, text)).result()
    assert report.failures.first[0].kind == "lease_lost"
    assert "cannot be renewed: relation" in report.failures.first[0].message
    assert await jobs.acks() == []


async def has_expired_lease(jobs: Jobs) -> bool:
    sql = f"select count(*) = 0 from {jobs.table} where status = 'pending' and until > now()"
    return bool(await jobs.connection.fetchval(sql))


# ---- workers in processes of their own ------------------------------------------------------------------------------


@asynccontextmanager
async def worker_of(servers: Addresses) -> AsyncGenerator[WorkerProcess]:
    variables = servers.environment()
    credentials = {name: value for name, value in variables.items() if name.startswith("NOETL_CREDENTIAL_")}
    async with worker_process(servers.temporal, servers.postgres, **credentials) as worker:
        yield worker


def fetching(web: Site) -> str:
    return f'http, method: GET, url: "{web.url}/size/{{{{ iter.job.id }}}}"'


async def test_a_worker_that_is_killed_in_the_middle(servers: Addresses, jobs: Jobs) -> None:
    """Two runs; the calls of the killed worker are made again by the next, under the same leases."""
    await jobs.make(40)
    spec = "max_in_flight: 4, frame: {max_rows: 2, lease_seconds: 60}"
    async with site() as web, asyncio.timeout(120):
        workflow = jobs.playbook(spec, call=fetching(web))
        await web.answer_only(15)
        async with worker_of(servers) as worker:
            handles = [await submit(servers, workflow) for _ in range(2)]
            await until(lambda: web.calls.total() > 15)
            worker.kill()
            await worker.wait_for_exit()
        await web.answer_only(None)
        async with worker_of(servers):
            reports = [await handle.result() for handle in handles]
    assert [report.status for report in reports] == ["completed", "completed"]
    assert sum(report.result["stats"]["success"] for report in reports) == 40
    assert await jobs.acks() == list(range(1, 41))


async def test_a_worker_that_is_killed_after_its_claim_is_committed_and_before_it_is_reported(
    servers: Addresses, jobs: Jobs
) -> None:
    """Its report is large and cannot be stored. The repeated call is answered from the ledger: no other row is claimed,
    and none is left to its lease.
    """
    await jobs.make(4)
    workflow = jobs.playbook("max_in_flight: 1, frame: {max_rows: 2, lease_seconds: 60}")
    workflow = workflow.replace("RETURNING id, attempts", f"RETURNING id, attempts, repeat('x', {LARGE}) AS pad")
    credentials = {name: value for name, value in servers.environment().items() if name.startswith("NOETL_CREDENTIAL_")}
    async with asyncio.timeout(120), proxy_to(servers.postgres) as proxy:
        holder = await asyncpg.connect(servers.playbooks)
        await holder.execute(f"begin; lock table {jobs.table}")
        async with worker_process(servers.temporal, proxy.dsn, **credentials) as worker:
            handle: RunHandle = await submit(servers, workflow)
            await until(lambda: is_waited_for(holder, jobs.table))
            await proxy.disconnect()
            await holder.close()
            await until(lambda: is_claimed(jobs, 2))
            worker.kill()
            await worker.wait_for_exit()
        async with worker_of(servers):
            report = await handle.result()
    assert (report.status, report.result["stats"]["success"]) == ("completed", 4)
    assert await jobs.acks() == [1, 2, 3, 4]
    attempts = await jobs.connection.fetch(f"select attempts from {jobs.table}")
    assert {row["attempts"] for row in attempts} == {1}


async def is_waited_for(connection: asyncpg.Connection[asyncpg.Record], table: str) -> bool:
    waiting = f"select count(*) from pg_locks where relation = '{table}'::regclass and not granted"
    return bool(await connection.fetchval(waiting))


async def is_claimed(jobs: Jobs, rows: int) -> bool:
    return await jobs.count_claimed() == rows


@pytest.mark.parametrize("renew", [RENEW, ""], ids=["renewed", "not renewed"])
async def test_a_worker_that_is_frozen_past_its_lease(servers: Addresses, jobs: Jobs, renew: str) -> None:
    """Another claimer takes the rows meanwhile. What the frozen worker goes on with is refused."""
    await jobs.make(4)
    spec = f"max_in_flight: 2, frame: {{lease_seconds: {LEASE}}}, policy: {{failure: {{mode: best_effort}}}}"
    async with site() as web, asyncio.timeout(120), worker_of(servers) as worker:
        await web.answer_only(0)
        handle: RunHandle = await submit(servers, jobs.playbook(spec, call=fetching(web), renew=renew))
        await until(lambda: web.calls.total() >= 1)
        os.kill(worker.pid, signal.SIGSTOP)
        await until(lambda: has_expired_lease(jobs))
        taken_jobs = await jobs.change_owner()
        assert taken_jobs
        await web.answer_only(None)
        os.kill(worker.pid, signal.SIGCONT)
        report = await handle.result()
    stats: dict[str, int] = report.result["stats"]
    assert stats["failed"] == len(taken_jobs)
    assert stats["success"] == 4 - len(taken_jobs)
    assert await jobs.acks() == [1, 2, 3, 4]
    assert {row for row, (status, _) in (await jobs.states()).items() if status == "other"} == set(taken_jobs)
