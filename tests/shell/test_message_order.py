"""Messages between the workflows of a playbook arrive in order."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from temporalio.api.enums.v1 import EventType

from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, ToolContext
from noetl_temporal.client import NoetlClient, RunHandle
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.worker import tool_worker, workflow_worker

from .conftest import Shell

LOOP = "  - step: start\n    loop: {in: [1, 2, 3], iterator: item}\n    tool: {kind: noop}\n"
MESSAGES = (
    EventType.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED,
    EventType.EVENT_TYPE_EXTERNAL_WORKFLOW_EXECUTION_SIGNALED,
)


async def messages(handle: RunHandle) -> list[EventType.ValueType]:
    history = await handle.workflow.fetch_history()
    return [event.event_type for event in history.events if event.event_type in MESSAGES]


async def test_a_pause_and_its_end_in_one_workflow_task_reach_a_loop_in_order(servers: Addresses, shell: Shell) -> None:
    is_called, let_go = asyncio.Event(), asyncio.Event()

    async def answer(_request: Request, _context: ToolContext) -> Any:
        is_called.set()
        await let_go.wait()
        return 7

    tools = {"noop": FakeTool("noop", answer)}
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=tools)
    async with AsyncExitStack() as stack, asyncio.timeout(120):
        await stack.enter_async_context(tool_worker(client.temporal, tools["noop"], shell.credentials))
        async with workflow_worker(client.temporal):
            handle = await Shell.submit(client, LOOP)
            await is_called.wait()
        requests = [asyncio.create_task(handle.pause(by="ann"))]
        while not (await handle.workflow.describe()).raw_description.HasField("pending_workflow_task"):
            await asyncio.sleep(0.02)
        requests.append(asyncio.create_task(handle.resume(by="ann")))
        await asyncio.sleep(1)  # so that one workflow task has both
        await stack.enter_async_context(workflow_worker(client.temporal))
        await asyncio.gather(*requests)
        let_go.set()
        assert (await handle.result()).status == "completed"
    assert await messages(handle) == [*MESSAGES, *MESSAGES]
