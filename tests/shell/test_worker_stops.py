"""A worker that is stopped: calls continue within its grace, and are repeated elsewhere after it."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflowservice.v1 import PauseActivityRequest, ResetActivityRequest, UnpauseActivityRequest

from noetl_activities.credentials import CredentialSource
from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, ToolContext
from noetl_compiler import compile_or_raise
from noetl_temporal.calls.run_tool import MAX_LOST
from noetl_temporal.client import NoetlClient, RunHandle
from noetl_temporal.machine.call import AttemptCounts
from noetl_temporal.queues import TOOL_QUEUES_VARIABLE
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.worker import serving
from noetl_temporal.worker_options import WorkerOptions

from .conftest import HEAD
from .reports import reports_of
from .servers import site
from .test_stored_once import submit, until
from .worker_process import worker_process

CALL = "  - step: start\n    tool: {kind: noop}\n"
ONCE = "  - step: start\n    tool: {kind: noop, spec: {idempotent: false}}\n"
GRACE = timedelta(seconds=0.1)


@pytest.fixture(params=["all", "none"], ids=["own queue", "shared queue"])
def queues(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tools' calls are on queues of their own, or on that of the workflows."""
    monkeypatch.setenv(TOOL_QUEUES_VARIABLE, request.param)


@pytest.mark.usefixtures("queues")
async def test_a_call_ends_within_the_grace(servers: Addresses) -> None:
    async with site() as web, worker_process(servers.temporal, servers.postgres) as first:
        web.open.clear()
        handle = await submit(servers, f'  - step: start\n    tool: {{kind: http, url: "{web.url}/size/1"}}\n')
        await until(lambda: web.calls.total() == 1)
        first.stop()
        await until(lambda: "stopping" in first.output)
        async with worker_process(servers.temporal, servers.postgres):
            web.open.set()
            report = await handle.result()
        assert report.status == "completed"
        assert await first.wait_for_exit() == 0
        assert web.calls.total() == 1
    [call] = await reports_of(handle, servers.postgres)
    assert [attempt.status for attempt in call.attempts] == ["ok"]


class GatedWorkers:
    """Workers that start and stop, with a tool that returns after ``release`` is set."""

    def __init__(self, client: NoetlClient) -> None:
        self.client = client
        self.calls = 0
        self.called = asyncio.Event()
        self.release = asyncio.Event()

    async def answer(self, _request: Request, _context: ToolContext) -> Any:
        self.calls += 1
        self.called.set()
        await self.release.wait()
        return self.calls

    def worker(self) -> Any:
        tools = {"noop": FakeTool("noop", self.answer)}
        return serving(
            self.client.temporal, tools, CredentialSource(environment={}), options=WorkerOptions(grace=GRACE)
        )

    async def interrupt_one_worker(self) -> None:
        """Run a worker that is stopped while the tool runs."""
        self.called.clear()
        async with self.worker():
            await self.called.wait()


async def gated_workers(servers: Addresses) -> GatedWorkers:
    tools = {"noop": FakeTool("noop", lambda _request, _context: None)}
    return GatedWorkers(await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=tools))


@pytest.mark.usefixtures("queues")
async def test_deploys_do_not_lose_or_fail_a_call(servers: Addresses) -> None:
    workers = await gated_workers(servers)
    handle = await workers.client.submit(compile_or_raise(f"{HEAD}workflow:\n{CALL}"))
    for _ in range(MAX_LOST + 1):
        await workers.interrupt_one_worker()
    workers.release.set()
    async with workers.worker():
        report = await handle.result()
    assert (report.status, report.result) == ("completed", MAX_LOST + 2)
    [call] = await reports_of(handle, servers.postgres)
    assert [attempt.status for attempt in call.attempts] == ["shutdown"] * (MAX_LOST + 1) + ["ok"]
    assert call.counts == AttemptCounts(total=MAX_LOST + 2, used=1, ok=1, interrupted=MAX_LOST + 1)


async def test_a_call_that_must_not_be_repeated_is_not_repeated_after_an_interruption(servers: Addresses) -> None:
    workers = await gated_workers(servers)
    handle = await workers.client.submit(compile_or_raise(f"{HEAD}workflow:\n{ONCE}"))
    await workers.interrupt_one_worker()
    async with workers.worker():
        report = await handle.result()
    assert report.status == "failed"
    assert report.failures.detailed[0].kind == "unknown_outcome"
    assert workers.calls == 1


async def test_a_cancelled_run_reports_how_its_call_ended(servers: Addresses) -> None:
    workers = await gated_workers(servers)
    handle = await workers.client.submit(compile_or_raise(f"{HEAD}workflow:\n{CALL}"))
    async with workers.worker():
        await workers.called.wait()
        await handle.cancel()
        assert (await handle.result()).status == "cancelled"
    [call] = await reports_of(handle, servers.postgres)
    assert [attempt.status for attempt in call.attempts] == ["cancelled"]


async def pending(handle: RunHandle) -> Any:
    [activity] = (await handle.workflow.describe()).raw_description.pending_activities
    return activity


async def test_a_paused_and_a_reset_activity_continue_as_if_nothing_had_been(servers: Addresses) -> None:
    workers = await gated_workers(servers)
    handle = await workers.client.submit(compile_or_raise(f"{HEAD}workflow:\n{CALL}"))
    service, namespace = workers.client.temporal.workflow_service, workers.client.temporal.namespace
    async with workers.worker():
        await workers.called.wait()
        activity: dict[str, Any] = {
            "namespace": namespace,
            "execution": WorkflowExecution(workflow_id=handle.workflow_id),
            "id": (await pending(handle)).activity_id,
        }
        await service.pause_activity(PauseActivityRequest(**activity))
        await until(partial(is_in, handle, PendingActivityState.PENDING_ACTIVITY_STATE_PAUSED))
        workers.called.clear()
        await service.unpause_activity(UnpauseActivityRequest(**activity))
        await workers.called.wait()
        await until(partial(has_reported, handle, 2))
        workers.called.clear()
        await service.reset_activity(ResetActivityRequest(**activity))
        await workers.called.wait()
        workers.release.set()
        report = await handle.result()
    assert report.status == "completed"
    [call] = await reports_of(handle, servers.postgres)
    assert [attempt.status for attempt in call.attempts] == ["paused", "reset", "ok"]
    assert call.counts == AttemptCounts(total=3, used=1, ok=1, interrupted=2)


async def has_reported(handle: RunHandle, attempts: int) -> bool:
    """Whether the server knows so many attempts: a heartbeat that comes after the reset is refused."""
    details = (await pending(handle)).heartbeat_details.payloads
    return bool(details) and len(json.loads(details[0].data)["records"]) >= attempts


async def is_in(handle: RunHandle, state: Any) -> bool:
    return bool((await pending(handle)).state == state)
