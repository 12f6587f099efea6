"""A run that cannot go on says why: no worker takes its calls, or its workflow tasks fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from temporalio import workflow
from temporalio.api.enums.v1 import EventType
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from noetl_activities.testing import FakeTool
from noetl_compiler import compile_or_raise
from noetl_temporal.cli.attention import Attention, attention_of
from noetl_temporal.client import NoetlClient, RunHandle
from noetl_temporal.machine.playbook import Machine
from noetl_temporal.naming import PLAYBOOK_WORKFLOW, WORKFLOW_QUEUE
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.worker import workflow_worker

from .conftest import HEAD, Shell, history_of

ONE = "  - step: start\n    tool: {kind: noop}\n"
LOOP = "  - step: start\n    loop: {in: [1, 2], iterator: n}\n    tool: {kind: noop}\n"


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl_temporal.cli.attention.PATIENCE", timedelta(seconds=0.2))


@pytest.fixture
async def client(servers: Addresses) -> NoetlClient:
    return await NoetlClient.connect(servers.temporal, tools={"noop": FakeTool("noop", lambda _request, _context: 1)})


async def noticed(client: NoetlClient, handle: RunHandle, enough: Callable[[list[Attention]], Any] = bool) -> Any:
    async with asyncio.timeout(30):
        while not enough(found := await attention_of(client.temporal, handle.workflow_id, handle.execution_id)):
            await asyncio.sleep(0.05)
    return found


@pytest.mark.parametrize("workflow", [ONE, LOOP], ids=["step", "loop"])
async def test_a_call_that_no_worker_takes(client: NoetlClient, workflow: str) -> None:
    async with workflow_worker(client.temporal):
        graph = compile_or_raise(f"{HEAD}workflow:\n{workflow}", "shell.yaml")
        handle = await client.submit(graph, queues={"noop": "nobody-polls-this"})
        [found] = await noticed(client, handle)
        await handle.terminate()
    assert found.kind == "no_worker"
    assert found.line() == "waiting for a worker of noop (none polls): start one for the queue nobody-polls-this"


async def test_a_run_that_no_worker_takes(client: NoetlClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl_temporal.client.WORKFLOW_QUEUE", "nobody-serves-workflows")
    handle = await Shell.submit(client, ONE)
    [found] = await noticed(client, handle)
    await handle.terminate()
    assert found.message == "waiting for a worker of workflows (none polls)"


async def test_a_call_that_takes_long_is_no_news(shell: Shell) -> None:
    entered, let_go = asyncio.Event(), asyncio.Event()

    async def answer(*_: object) -> None:
        entered.set()
        await let_go.wait()

    async with shell.client(answer) as client:
        handle = await Shell.submit(client, ONE)
        await asyncio.wait_for(entered.wait(), 30)
        assert await attention_of(client.temporal, handle.workflow_id, handle.execution_id) == []
        let_go.set()
        assert (await handle.result()).status == "completed"
        assert await attention_of(client.temporal, handle.workflow_id, handle.execution_id) == []


async def test_a_bug_of_ours_is_an_incident_until_it_is_fixed(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Any:
        raise ZeroDivisionError("a bug of ours")

    async with shell.client(lambda _request, _context: 1) as client:
        with monkeypatch.context() as patch:
            patch.setattr(Machine, "feed", broken)
            handle = await Shell.submit(client, ONE)
            [found] = await noticed(client, handle)
        assert found.kind == "incident"
        assert "a bug of ours" in found.message
        assert f"noetl cancel {handle.execution_id}" in found.remedy
        assert (await handle.result()).status == "completed"


@workflow.defn(name=PLAYBOOK_WORKFLOW, sandboxed=False)
class OtherBuild:
    """Sleeps where ours calls a tool."""

    @workflow.run
    async def run(self, _given: Any, _playbook: Any) -> None:
        await workflow.sleep(1)


async def test_a_run_that_does_not_replay_is_to_be_terminated(client: NoetlClient) -> None:
    runner = UnsandboxedWorkflowRunner()
    other = Worker(
        client.temporal,
        task_queue=WORKFLOW_QUEUE,
        workflows=[OtherBuild],
        workflow_runner=runner,
        max_cached_workflows=0,
    )
    async with other:
        handle = await Shell.submit(client, ONE)
        while not await started_timer(handle):
            await asyncio.sleep(0.05)
    async with workflow_worker(client.temporal):
        [found] = await noticed(client, handle)
        await handle.terminate()
    assert "non deterministic" in found.message
    assert f"noetl terminate {handle.execution_id}" in found.remedy


async def started_timer(handle: RunHandle) -> bool:
    events = (await history_of(handle)).events
    return any(event.event_type == EventType.EVENT_TYPE_TIMER_STARTED for event in events)
