"""The rows of a frame come from the segments that it stored: derived twice they are the same."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, ToolContext
from noetl_compiler import compile_or_raise
from noetl_temporal.client import NoetlClient
from noetl_temporal.mirror.rebuild import rebuild
from noetl_temporal.mirror.service import follow_execution
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.worker import frame_worker, workflow_worker
from noetl_temporal.worker_options import WorkerOptions
from tests.audit import audit_execution
from tests.mirror.conftest import Log
from tests.shell.conftest import HEAD, Shell

LOOP = """
  - step: many
    loop: {in: "{{ range(60) | list }}", iterator: item, spec: {frame: {}}}
    tool: {kind: noop, input: {n: "{{ item }}"}}
"""


@pytest.fixture(autouse=True)
def _store_payloads(servers: Addresses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_POSTGRES", servers.postgres)


async def test_rows_of_a_frame_are_derived_again(servers: Addresses, dsn: str, log: Log) -> None:
    shell = Shell(servers.temporal)
    async with shell.client(lambda request, _context: request.input["n"]) as client:
        run = await shell.submit(client, LOOP)
        await run.result()
        await follow_execution(client.temporal, dsn, run.workflow.id)
    rows = await log.everything()
    assert sum(row["event_type"] == "task.attempt.done" for row in rows) == 60
    assert await audit_execution(dsn, run.execution_id) == []
    await rebuild(dsn, client.temporal.data_converter)
    assert await log.everything() == rows


async def test_an_abandoned_frame_leaves_a_consistent_log(servers: Addresses, dsn: str, log: Log) -> None:
    """Its worker stops for good, and the run is cancelled before another takes it: nothing of its items is logged."""
    waiting = asyncio.Event()

    async def answer(request: Request, _context: ToolContext) -> Any:
        if request.input["n"] == 40:
            waiting.set()
            await asyncio.Event().wait()
        return request.input["n"]

    tools = {"noop": FakeTool("noop", answer)}
    client = await NoetlClient.connect(servers.temporal, tools=tools)
    source = Shell(servers.temporal).credentials
    async with asyncio.timeout(90), workflow_worker(client.temporal):
        async with frame_worker(client.temporal, tools, source, WorkerOptions(grace=timedelta(seconds=0.1))):
            run = await client.submit(compile_or_raise(f"{HEAD}workflow:\n{LOOP}", "frames.yaml"))
            await waiting.wait()
        await run.workflow.cancel()
        assert (await run.result()).status == "cancelled"
        await follow_execution(client.temporal, dsn, run.workflow.id)
    types = Counter(row["event_type"] for row in await log.rows(run.execution_id))
    assert (types["loop.started"], types["loop.cancelled"], types["loop.iteration.started"]) == (1, 1, 0)
    assert await audit_execution(dsn, run.execution_id) == []


async def test_a_terminated_run_ends_its_loop_and_reports_nothing_of_the_frame(
    servers: Addresses, dsn: str, log: Log
) -> None:
    """History names no segments then, whatever the frame has stored; what the mirror reads later is the same."""
    waiting, let_go = asyncio.Event(), asyncio.Event()

    async def answer(request: Request, _context: ToolContext) -> Any:
        if request.input["n"] == 40:
            waiting.set()
            await let_go.wait()
        return request.input["n"]

    shell = Shell(servers.temporal)
    async with asyncio.timeout(90), shell.client(answer) as client:
        run = await shell.submit(client, LOOP)
        await waiting.wait()
        await run.workflow.terminate(reason="enough")
        await follow_execution(client.temporal, dsn, run.workflow.id)
        rows = await log.everything()
        let_go.set()
    types = Counter(row["event_type"] for row in rows)
    assert (types["loop.started"], types["loop.cancelled"], types["loop.iteration.started"]) == (1, 1, 0)
    assert await audit_execution(dsn, run.execution_id) == []
    await rebuild(dsn, client.temporal.data_converter)
    assert await log.everything() == rows
