"""A run that cannot go on says why: no worker takes its calls, or its workflow tasks fail."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from temporalio import workflow
from temporalio.api.enums.v1 import EventType
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from noetl_activities.credentials import CredentialSource
from noetl_activities.testing import FakeTool
from noetl_compiler import compile_or_raise
from noetl_temporal.cli.describe_run import describe_run
from noetl_temporal.cli.event_log import open_event_log
from noetl_temporal.cli.run_problems import RunProblem, read_run_problems
from noetl_temporal.client import NoetlClient, RunHandle
from noetl_temporal.config import connect_temporal
from noetl_temporal.machine.playbook import PlaybookMachine
from noetl_temporal.mirror.raw import WorkflowRun
from noetl_temporal.mirror.store import open_store
from noetl_temporal.naming import PLAYBOOK_WORKFLOW, WORKFLOW_QUEUE
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.worker import serving, workflow_worker

from .conftest import HEAD, Shell, history_of

ONE_STEP = "  - step: start\n    tool: {kind: noop}\n"
LOOP = "  - step: start\n    loop: {in: [1, 2], iterator: n}\n    tool: {kind: noop}\n"


def ok(*_: object) -> int:
    return 1


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl_temporal.cli.run_problems.MIN_WAIT", timedelta(seconds=0.2))


@pytest.fixture
async def client(servers: Addresses) -> NoetlClient:
    return await NoetlClient.connect(servers.temporal, tools={"noop": FakeTool("noop", lambda _request, _context: 1)})


async def wait_for_problem(client: NoetlClient, handle: RunHandle, message: str) -> RunProblem:
    """Wait until the run has one problem, with this message: a worker that starts is missing for a moment."""
    async with asyncio.timeout(60):
        while True:
            problems = await read_run_problems(client.temporal, handle.workflow_id, handle.execution_id)
            if len(problems) == 1 and message in problems[0].message:
                return problems[0]
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("workflow", [ONE_STEP, LOOP], ids=["step", "loop"])
async def test_a_call_that_no_worker_takes(client: NoetlClient, workflow: str) -> None:
    async with workflow_worker(client.temporal):
        graph = compile_or_raise(f"{HEAD}workflow:\n{workflow}", "shell.yaml")
        handle = await client.submit(graph, queues={"noop": "nobody-polls-this"})
        problem = await wait_for_problem(client, handle, "waiting for a worker for noop")
        await handle.terminate()
    assert problem.kind == "no_worker"
    assert (
        problem.line() == "waiting for a worker for noop (none is polling): start one for the queue nobody-polls-this"
    )


async def test_a_run_that_no_worker_takes(client: NoetlClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl_temporal.client.WORKFLOW_QUEUE", "nobody-serves-workflows")
    handle = await Shell.submit(client, ONE_STEP)
    problem = await wait_for_problem(client, handle, "waiting for a worker for workflows")
    await handle.terminate()
    assert problem.message == "waiting for a worker for workflows (none is polling)"


async def test_a_long_call_is_not_announced(shell: Shell) -> None:
    has_entered, let_go = asyncio.Event(), asyncio.Event()

    async def answer(*_: object) -> None:
        has_entered.set()
        await let_go.wait()

    async with shell.client(answer) as client:
        handle = await Shell.submit(client, ONE_STEP)
        await asyncio.wait_for(has_entered.wait(), 30)
        assert await read_run_problems(client.temporal, handle.workflow_id, handle.execution_id) == []
        let_go.set()
        assert (await handle.result()).status == "completed"
        assert await read_run_problems(client.temporal, handle.workflow_id, handle.execution_id) == []


async def test_a_bug_of_ours_is_an_incident_until_it_is_fixed(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_bug(*_: object) -> Any:
        raise ZeroDivisionError("a bug of ours")

    async with shell.client(lambda _request, _context: 1) as client:
        with monkeypatch.context() as patch:
            patch.setattr(PlaybookMachine, "feed", raise_bug)
            handle = await Shell.submit(client, ONE_STEP)
            problem = await wait_for_problem(client, handle, "a bug of ours")
        assert problem.kind == "incident"
        assert f"noetl cancel {handle.execution_id}" in problem.remedy
        assert (await handle.result()).status == "completed"


@workflow.defn(name=PLAYBOOK_WORKFLOW, sandboxed=False)
class OtherBuild:
    """Sleeps where ours calls a tool."""

    @workflow.run
    async def run(self, _run_input: Any, _playbook: Any) -> None:
        await workflow.sleep(3600)


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
        handle = await Shell.submit(client, ONE_STEP)
        while not await started_timer(handle):
            await asyncio.sleep(0.05)
    await handle.workflow.signal("wake")
    async with workflow_worker(client.temporal):
        problem = await wait_for_problem(client, handle, ": nondeterminism: ")
        await handle.terminate()
    assert f"noetl terminate {handle.execution_id}" in problem.remedy


async def started_timer(handle: RunHandle) -> bool:
    events = (await history_of(handle)).events
    return any(event.event_type == EventType.EVENT_TYPE_TIMER_STARTED for event in events)


async def test_an_unavailable_store_of_large_values_is_not_reported_as_a_bug(servers: Addresses) -> None:
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools={"noop": FakeTool("noop", ok)})
    away = await connect_temporal(servers.temporal, dsn="postgresql://noetl@127.0.0.1:1/noetl")
    async with workflow_worker(away):
        handle = await Shell.submit(client, ONE_STEP, large="x" * 200_000)
        problem = await wait_for_problem(client, handle, "storage")
    assert problem.kind == "incident"
    assert problem.remedy == (
        f"the run continues when Postgres is back; or stop it with `noetl cancel {handle.execution_id}`"
    )
    async with serving(client.temporal, {"noop": FakeTool("noop", ok)}, CredentialSource(environment={})):
        assert (await handle.result()).status == "completed"


async def test_an_unwritable_log_is_reported_for_open_and_ended_runs(shell: Shell, servers: Addresses) -> None:
    has_entered, let_go = asyncio.Event(), asyncio.Event()

    async def answer(*_: object) -> int:
        has_entered.set()
        await let_go.wait()
        return 1

    async with (
        shell.client(answer) as worker_client,
        open_store(servers.postgres) as store,
        open_event_log(servers.postgres) as log,
    ):
        client = NoetlClient(worker_client.temporal, servers.postgres, {})
        handle = await Shell.submit(worker_client, ONE_STEP)
        await has_entered.wait()
        description = await handle.workflow.describe()
        run = WorkflowRun("default", handle.workflow_id, description.run_id, PLAYBOOK_WORKFLOW)
        await store.note_problem(run, "ValueError: no such text\nDETAIL: none")
        running = await describe_run(client, handle, log, None)
        let_go.set()
        await handle.result()
        ended = await describe_run(client, handle, log, None)
    for shown in (running, ended):
        assert [problem.kind for problem in shown.problems] == ["unread_history"]
        assert shown.problems[0].message.endswith(" UTC: ValueError: no such text")
        assert "noetl mirror problems" in shown.problems[0].remedy
        assert shown.events_complete is False
    assert (running.status, ended.status) == ("running", "completed")
    assert running.steps["start"]["status"] == "running"
