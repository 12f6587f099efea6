"""Which queue a tool is called on: its own, or the one it shares with the workflows."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType

from noetl_activities.credentials import CredentialSource
from noetl_activities.testing import FakeTool
from noetl_activities.tool import Tool
from noetl_compiler import compile_or_raise
from noetl_temporal.client import NoetlClient, RunHandle
from noetl_temporal.naming import WORKFLOW_QUEUE
from noetl_temporal.queues import TOOL_QUEUES_VARIABLE
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.worker import serving, workflow_worker

from .conftest import HEAD, history_of
from .servers import proxy_to
from .test_run_problems import wait_for_problem

BOTH = """workflow:
  - step: start
    tool: {kind: noop}
    next: {arcs: [{step: other}]}
  - step: other
    tool: {kind: python, code: "1"}
"""
LOOP = "workflow:\n  - step: start\n    loop: {in: [1, 2], iterator: n}\n    tool: {kind: noop}\n"


@pytest.fixture
def tools() -> dict[str, Tool]:
    return {kind: FakeTool(kind, lambda _request, _context: 1) for kind in ("noop", "python")}


async def finish_run(servers: Addresses, tools: dict[str, Tool], text: str, **more: Any) -> RunHandle:
    client = await NoetlClient.connect(servers.temporal, tools=tools)
    async with serving(client.temporal, tools, CredentialSource(environment={})):
        handle = await client.submit(compile_or_raise(f"{HEAD}{text}"), **more)
        assert (await handle.result()).status == "completed"
    return handle


async def queues_of(handle: RunHandle) -> dict[str, str]:
    events = (await history_of(handle)).events
    scheduled_events = [event for event in events if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED]
    calls = [event.activity_task_scheduled_event_attributes for event in scheduled_events]
    return {call.activity_type.name: call.task_queue.name for call in calls}


OWN_QUEUES = {"noetl.noop": "noetl-noop", "noetl.python": "noetl-python"}
SHARED_QUEUES = dict.fromkeys(OWN_QUEUES, WORKFLOW_QUEUE)


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (None, OWN_QUEUES),
        ("all", OWN_QUEUES),
        ("none", SHARED_QUEUES),
        ("python", {**SHARED_QUEUES, "noetl.python": "noetl-python"}),
        (" http , noop", {**SHARED_QUEUES, "noetl.noop": "noetl-noop"}),
    ],
)
async def test_the_configuration_lists_the_tools_with_their_own_queue(
    servers: Addresses,
    tools: dict[str, Tool],
    monkeypatch: pytest.MonkeyPatch,
    setting: str | None,
    expected: dict[str, str],
) -> None:
    if setting is not None:
        monkeypatch.setenv(TOOL_QUEUES_VARIABLE, setting)
    assert await queues_of(await finish_run(servers, tools, BOTH)) == expected


async def test_the_embedded_stack_shares_a_queue(
    servers: Addresses, tools: dict[str, Tool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOOL_QUEUES_VARIABLE, servers.environment()[TOOL_QUEUES_VARIABLE])
    queues = await queues_of(await finish_run(servers, tools, BOTH))
    assert queues == {"noetl.noop": WORKFLOW_QUEUE, "noetl.python": "noetl-python"}


async def test_a_submission_that_names_a_queue_has_it(
    servers: Addresses, tools: dict[str, Tool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOOL_QUEUES_VARIABLE, "none")
    queues = await queues_of(await finish_run(servers, tools, BOTH, queues={"python": "noetl-python"}))
    assert queues == {"noetl.noop": WORKFLOW_QUEUE, "noetl.python": "noetl-python"}


async def test_a_loop_has_the_queues_of_its_run(
    servers: Addresses, tools: dict[str, Tool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOOL_QUEUES_VARIABLE, "none")
    handle = await finish_run(servers, tools, LOOP)
    events = (await history_of(handle)).events
    started = EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED
    [child] = [
        event.child_workflow_execution_started_event_attributes for event in events if event.event_type == started
    ]
    client = await NoetlClient.connect(servers.temporal)
    workflow_handle = client.temporal.get_workflow_handle(child.workflow_execution.workflow_id)
    queues = [
        event.activity_task_scheduled_event_attributes.task_queue.name
        for event in (await workflow_handle.fetch_history()).events
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
    ]
    assert queues == [WORKFLOW_QUEUE] * 2


async def test_a_shared_queue_without_workers_is_reported(
    servers: Addresses, tools: dict[str, Tool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker of the workflows alone and one of the tool alone do not poll it."""
    monkeypatch.setattr("noetl_temporal.cli.run_problems.MIN_WAIT", timedelta(seconds=0.2))
    monkeypatch.setattr("noetl_temporal.queues.WORKFLOW_QUEUE", "unpolled-for-calls")
    monkeypatch.setattr("noetl_temporal.cli.run_problems.WORKFLOW_QUEUE", "unpolled-for-calls")
    monkeypatch.setenv(TOOL_QUEUES_VARIABLE, "none")
    client = await NoetlClient.connect(servers.temporal, tools=tools)
    source = CredentialSource(environment={})
    async with workflow_worker(client.temporal), serving(client.temporal, tools, source, only=["noop"]):
        handle = await client.submit(compile_or_raise(f"{HEAD}{LOOP}"))
        problem = await wait_for_problem(client, handle, "waiting for a worker for noop")
        await handle.terminate()
    assert problem.line() == "waiting for a worker for noop (none is polling): start one with `noetl worker`"


async def test_a_run_whose_input_cannot_be_read_yet_continues_when_it_can(
    servers: Addresses, tools: dict[str, Tool]
) -> None:
    """The store of large values is away from the one worker when it takes the run."""
    async with proxy_to(servers.postgres) as proxy:
        client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=tools)
        distant = await NoetlClient.connect(servers.temporal, dsn=proxy.dsn, tools=tools)
        await proxy.disconnect()
        async with serving(distant.temporal, tools, CredentialSource(environment={})):
            handle = await client.submit(compile_or_raise(f"{HEAD}{BOTH}"), {"text": "x" * 100_000})
            await wait_for_problem(client, handle, "the payload store is unavailable")
            await proxy.restore()
            assert (await handle.result()).status == "completed"
