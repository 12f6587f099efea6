"""Calls of a worker that ends, or is about to: a cancel reaches them, and their processes do not outlive it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client, WorkflowHandle

from noetl_compiler import compile_or_raise
from noetl_temporal.client import RunHandle
from noetl_temporal.stack.addresses import Addresses
from tests.acceptance.processes import alive

from .conftest import HEAD
from .reports import reports_in, reports_of
from .servers import site
from .test_stored_once import submit, until
from .test_worker_stops import CALL, gated_workers
from .worker_process import worker_process

SPIN = """
  - step: start
    tool:
      kind: python
      code: |
        open({file!r}, "a").write(f"{{os.getpid()}}\\n")
        while True: pass
    next:
      arcs: [{{step: after}}]
  - step: after
    tool: {{kind: http, method: POST, url: "{url}/size/1"}}
"""


class Spinning:
    """A run whose first step never ends. ``pids`` are the processes of its attempts."""

    def __init__(self, file: Path) -> None:
        self.file = file

    async def submit(self, servers: Addresses, url: str = "http://127.0.0.1:1", text: str = SPIN) -> RunHandle:
        return await submit(servers, text.format(file=str(self.file), url=url))

    @property
    def pids(self) -> list[int]:
        return [int(pid) for pid in self.file.read_text().split()] if self.file.exists() else []


@pytest.fixture
def spinning(task_folder: Path) -> Iterator[Spinning]:
    processes = Spinning(task_folder / "pids")
    yield processes
    for pid in filter(alive, processes.pids):
        os.kill(pid, signal.SIGKILL)


async def test_a_task_ends_with_its_killed_worker(servers: Addresses, spinning: Spinning) -> None:
    handle = await spinning.submit(servers)
    async with worker_process(servers.temporal, servers.postgres) as worker:
        await until(lambda: len(spinning.pids) == 1)
        worker.kill()
        await until(lambda: not alive(spinning.pids[0]))
    await handle.terminate()


@pytest.mark.parametrize("tools", ["python", "noop,shell"])
async def test_a_worker_reports_the_sandbox_of_tasks_at_its_start(servers: Addresses, tools: str) -> None:
    async with worker_process(servers.temporal, servers.postgres, "--tools", tools) as worker:
        await until(lambda: "tasks: " in worker.output)


async def test_a_cancel_reaches_a_call_of_a_worker_that_waits_for_it(servers: Addresses, spinning: Spinning) -> None:
    async with site() as web:
        handle = await spinning.submit(servers, web.url)
        async with worker_process(servers.temporal, servers.postgres) as worker:
            await until(lambda: len(spinning.pids) == 1)
            worker.stop()
            await until(lambda: "stopping" in worker.output)
            await handle.cancel()
            assert await worker.wait_for_exit() == 0
        assert not alive(spinning.pids[0])
        async with worker_process(servers.temporal, servers.postgres), asyncio.timeout(60):
            assert (await handle.result()).status == "cancelled"
        assert web.calls.total() == 0
    assert len(spinning.pids) == 1
    [call] = await reports_of(handle, servers.postgres)
    assert [attempt.status for attempt in call.attempts] == ["cancelled"]


LOOP = """
  - step: start
    loop: {{in: [1], iterator: one}}
    tool:
      kind: python
      code: |
        open({file!r}, "a").write(f"{{os.getpid()}}\\n")
        while True: pass
"""


@pytest.mark.parametrize("text", [SPIN, LOOP])
async def test_an_interrupted_call_does_not_begin_again_during_a_cancel(
    text: str, servers: Addresses, spinning: Spinning
) -> None:
    """The run is cancelled while nobody serves workflows, and workers of tools come first."""
    client = await Client.connect(servers.temporal)
    handle = await spinning.submit(servers, text=text)
    async with worker_process(servers.temporal, servers.postgres, "--grace", "0") as first:
        await until(lambda: len(spinning.pids) == 1)
        first.stop()
        assert await first.wait_for_exit() == 0
    workflow = await caller(client, handle)
    await handle.cancel()
    async with worker_process(servers.temporal, servers.postgres, "--tools", "python"):
        await until(partial(is_begun_again, workflow))
        async with worker_process(servers.temporal, servers.postgres), asyncio.timeout(60):
            report = await handle.result()
    assert report.status == "cancelled"
    assert len(spinning.pids) == 1
    [call] = await reports_in(workflow, servers.postgres)
    assert [(attempt.status, attempt.is_called) for attempt in call.attempts] == [
        ("shutdown", True),
        ("cancelled", False),
    ]


async def caller(client: Client, handle: RunHandle) -> WorkflowHandle[Any, Any]:
    """The workflow that makes the call: the run's own, or that of its loop."""
    for child in (await handle.workflow.describe()).raw_description.pending_children:
        return client.get_workflow_handle(child.workflow_id)
    return handle.workflow


async def is_begun_again(workflow: WorkflowHandle[Any, Any]) -> bool:
    """Whether the second attempt has sent its first heartbeat."""
    [call] = (await workflow.describe()).raw_description.pending_activities
    return len(json.loads(call.heartbeat_details.payloads[0].data)["records"]) == 2


async def test_an_interrupted_cleanup_continues_although_its_run_is_cancelled(servers: Addresses) -> None:
    workers = await gated_workers(servers)
    workflow = f"{CALL}  - step: end\n    tool: {{kind: noop}}\n"
    handle = await workers.client.submit(compile_or_raise(f"{HEAD}workflow:\n{workflow}"))
    async with workers.worker():
        await workers.called.wait()
        workers.called.clear()
        await handle.cancel()
        await workers.called.wait()
    workers.release.set()
    async with workers.worker():
        report = await handle.result()
    assert report.status == "cancelled"
    first_report, cleanup = await reports_of(handle, servers.postgres)
    assert [attempt.status for attempt in first_report.attempts] == ["cancelled"]
    assert [attempt.status for attempt in cleanup.attempts] == ["shutdown", "ok"]
