"""Pauses of Temporal itself, as its UI and command line make them, on the real server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import asyncpg
import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import (
    PauseActivityRequest,
    PauseWorkflowExecutionRequest,
    UnpauseActivityRequest,
    UnpauseWorkflowExecutionRequest,
)
from temporalio.client import Client

from noetl_temporal.cli.describe_run import describe_run
from noetl_temporal.cli.event_log import open_event_log
from noetl_temporal.cli.run_problems import read_run_problems
from noetl_temporal.cli.suspensions import SuspensionLines
from noetl_temporal.inspection.replay import open_histories
from noetl_temporal.mirror.service import mirroring
from noetl_temporal.runs import RequestRefusedError, RunHandle, Runs
from noetl_temporal.stack.addresses import Addresses
from tests.shell.conftest import Shell
from tests.shell.test_pauses import STEPS, Gate, logging_client, status_in_log, until

NAMESPACE = "default"
PAUSED_ATTEMPTS = "SELECT count(*) FROM noetl.running_attempt WHERE execution_id = $1 AND status = 'PAUSED'"

PAUSES = """
SELECT concat_ws(' ', event_type, meta->>'by', meta->>'reason') FROM noetl.event
WHERE execution_id = $1 AND event_type IN ('task.paused', 'task.resumed') ORDER BY event_id
"""


async def pause_workflow(client: Client, workflow_id: str) -> None:
    request = PauseWorkflowExecutionRequest(
        namespace=NAMESPACE, workflow_id=workflow_id, identity="ann", reason="why", request_id=workflow_id
    )
    await client.workflow_service.pause_workflow_execution(request)


async def unpause_workflow(client: Client, workflow_id: str) -> None:
    request = UnpauseWorkflowExecutionRequest(
        namespace=NAMESPACE, workflow_id=workflow_id, identity="bob", request_id=f"{workflow_id} again"
    )
    await client.workflow_service.unpause_workflow_execution(request)


async def is_in_log(servers: Addresses, handle: RunHandle, holds: Callable[[str], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds(await status_in_log(servers, handle)):
            await asyncio.sleep(0.1)


async def test_a_paused_workflow_is_understood(servers: Addresses, shell: Shell) -> None:
    gate = Gate()
    async with logging_client(servers, gate) as client, mirroring(client.temporal, servers.postgres):
        handle = await shell.submit(client, STEPS)
        await until(lambda: gate.messages == ["start"])
        await pause_workflow(client.temporal, handle.workflow_id)
        gate.open()
        unpause = f"temporal workflow unpause --workflow-id {handle.workflow_id}"

        # the status, without a worker that could be asked
        async with open_event_log(servers.postgres) as log:
            description = await describe_run(Runs(client.temporal, servers.postgres), handle, log, None)
        assert description.status == "paused"
        [problem] = description.problems
        assert (problem.kind, problem.remedy) == ("paused_run", f"`{unpause}`")
        assert "is paused in Temporal since" in problem.message
        assert problem.message.endswith("by ann (why)")

        # lists: one paused workflow does not hide the others
        bare = Runs(client.temporal, None)
        async with asyncio.timeout(20):
            while handle.execution_id not in [run.execution_id for run in await bare.list(status="paused")]:
                await asyncio.sleep(0.1)
        assert handle.execution_id not in [run.execution_id for run in await bare.list(status="running")]
        assert handle.workflow_id in [history.workflow_id async for history in open_histories(client.temporal)]

        # the event log, from which the live view tells how to go on
        await is_in_log(servers, handle, lambda status: status == "PAUSED")
        lines = SuspensionLines(handle.execution_id)
        async for event in handle.events():
            lines.feed(event)
            if event.event_type == "playbook.paused":
                break
        assert lines.lines() == [f"paused by ann (why): {unpause}"]

        # requests
        for request in (handle.pause(), handle.signal("paid"), handle.approve(by="ann")):
            with pytest.raises(RequestRefusedError, match=f"it is paused in Temporal .* to resume it: {unpause}"):
                await request
        assert gate.messages == ["start"]

        await unpause_workflow(client.temporal, handle.workflow_id)
        assert (await asyncio.wait_for(handle.result(), 30)).status == "completed"
        assert gate.messages == ["start", "after"]
        await is_in_log(servers, handle, lambda status: status == "COMPLETED")
        types = [event.event_type async for event in handle.events()]
        assert [type_ for type_ in types if type_ in ("playbook.paused", "playbook.resumed")] == [
            "playbook.paused",
            "playbook.resumed",
        ]


async def test_a_run_that_was_paused_by_request_stays_paused(servers: Addresses, shell: Shell) -> None:
    """Whoever pauses and unpauses it in Temporal meanwhile."""
    gate = Gate()
    async with logging_client(servers, gate) as client, mirroring(client.temporal, servers.postgres):
        handle = await shell.submit(client, STEPS)
        await until(lambda: gate.messages == ["start"])
        await handle.pause(by="ann")
        await is_in_log(servers, handle, lambda status: status == "PAUSED")
        await pause_workflow(client.temporal, handle.workflow_id)
        await unpause_workflow(client.temporal, handle.workflow_id)
        gate.open()
        assert (await handle.suspensions()).pause is not None
        await handle.resume(by="bob")
        assert (await asyncio.wait_for(handle.result(), 30)).status == "completed"
        await is_in_log(servers, handle, lambda status: status == "COMPLETED")
        message = [(event.event_type, event.meta.get("by")) async for event in handle.events()]
        assert [event for event in message if event[0] in ("playbook.paused", "playbook.resumed")] == [
            ("playbook.paused", "ann"),
            ("playbook.paused", "ann"),
            ("playbook.resumed", "bob"),
        ]


async def status_of(servers: Addresses, runs: Runs, handle: RunHandle) -> str:
    async with open_event_log(servers.postgres) as log:
        return (await describe_run(runs, handle, log, None)).status


async def attempt_is_paused_in_log(servers: Addresses, handle: RunHandle) -> None:
    connection = await asyncpg.connect(servers.postgres)
    try:
        async with asyncio.timeout(30):
            while await connection.fetchval(PAUSED_ATTEMPTS, handle.execution_id) != 1:
                await asyncio.sleep(0.1)
    finally:
        await connection.close()


async def pauses_are_in_log(servers: Addresses, handle: RunHandle, expected: list[str]) -> None:
    connection = await asyncpg.connect(servers.postgres)
    try:
        async with asyncio.timeout(30):
            while [row[0] for row in await connection.fetch(PAUSES, handle.execution_id)] != expected:
                await asyncio.sleep(0.1)
    finally:
        await connection.close()


async def test_a_paused_call_is_understood(servers: Addresses, shell: Shell) -> None:
    gate = Gate()
    async with logging_client(servers, gate) as client, mirroring(client.temporal, servers.postgres):
        handle = await shell.submit(client, STEPS)
        await until(lambda: gate.messages == ["start"])
        execution = WorkflowExecution(workflow_id=handle.workflow_id)
        [call] = (await handle.workflow.describe()).raw_description.pending_activities
        service = client.temporal.workflow_service
        await service.pause_activity(
            PauseActivityRequest(
                namespace=NAMESPACE, execution=execution, id=call.activity_id, identity="ann", reason="why"
            )
        )
        [problems_found] = await read_run_problems(client.temporal, handle.workflow_id, handle.execution_id)
        assert problems_found.kind == "paused_call"
        assert problems_found.message.endswith("UTC by ann (why)")
        assert f"--activity-id {call.activity_id}" in problems_found.remedy
        assert (await status_of(servers, client, handle)) == "paused"
        bare = Runs(client.temporal, None)
        async with asyncio.timeout(20):
            while handle.execution_id not in [run.execution_id for run in await bare.list(status="paused")]:
                await asyncio.sleep(0.1)
        assert handle.execution_id not in [run.execution_id for run in await bare.list(status="running")]
        await attempt_is_paused_in_log(servers, handle)
        await is_in_log(servers, handle, lambda status: status == "PAUSED")
        await pauses_are_in_log(servers, handle, ["task.paused ann why"])
        await service.unpause_activity(
            UnpauseActivityRequest(namespace=NAMESPACE, execution=execution, id=call.activity_id)
        )
        assert (await status_of(servers, client, handle)) == "running"
        await is_in_log(servers, handle, lambda status: status == "RUNNING")
        await pauses_are_in_log(servers, handle, ["task.paused ann why", "task.resumed"])
        assert await read_run_problems(client.temporal, handle.workflow_id, handle.execution_id) == []
        gate.open()
        assert (await asyncio.wait_for(handle.result(), 60)).status == "completed"
        await is_in_log(servers, handle, lambda status: status == "COMPLETED")
