"""A call that has ended when a stop comes, in the same workflow task, is recorded as it ended."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import asyncpg
import pytest
from temporalio.api.enums.v1 import EventType

from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, ToolContext
from noetl_temporal.client import NoetlClient, RunHandle
from noetl_temporal.mirror.service import follow_execution
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.worker import frame_worker, tool_worker, workflow_worker

from .conftest import Shell

CALL = "  - step: pay\n    tool: {kind: noop}\n"
FRAME = "  - step: pay\n    loop: {in: '{{ [1] }}', iterator: item, spec: {frame: {}}}\n    tool: {kind: noop}\n"
LIMITED_STEP = "  - step: pay\n    spec: {timeout: 1s}\n    tool: {kind: noop}\n"


async def ended_in(handle: RunHandle) -> bool:
    history = await handle.workflow.fetch_history()
    return any(event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED for event in history.events)


async def fired_in(handle: RunHandle) -> bool:
    history = await handle.workflow.fetch_history()
    return any(event.event_type == EventType.EVENT_TYPE_TIMER_FIRED for event in history.events)


@pytest.mark.parametrize("is_stopped_first", [True, False], ids=["stop first", "end first"])
@pytest.mark.parametrize("step", [CALL, FRAME, LIMITED_STEP], ids=["a call", "a frame", "a time limit"])
async def test_it_is_recorded_as_it_ended(servers: Addresses, shell: Shell, step: str, is_stopped_first: bool) -> None:
    is_called, let_go = asyncio.Event(), asyncio.Event()

    async def answer(_request: Request, _context: ToolContext) -> Any:
        is_called.set()
        await let_go.wait()
        return {"paid": 7}

    tools = {"noop": FakeTool("noop", answer)}
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=tools)
    async with AsyncExitStack() as stack, asyncio.timeout(120):
        serve = frame_worker(client.temporal, tools, shell.credentials)
        if step != FRAME:
            serve = tool_worker(client.temporal, tools["noop"], shell.credentials)
        await stack.enter_async_context(serve)
        async with workflow_worker(client.temporal):
            handle = await Shell.submit(client, step)
            await is_called.wait()
        await stop_and_end(handle, let_go, is_limited=step == LIMITED_STEP, is_stopped_first=is_stopped_first)
        await stack.enter_async_context(workflow_worker(client.temporal))
        await handle.result()
    await follow_execution(client.temporal, servers.postgres, handle.workflow_id)
    assert "COMPLETED" in await ends_of_calls(servers.postgres, handle.execution_id)
    assert "CANCELLED" not in await ends_of_calls(servers.postgres, handle.execution_id)


async def stop_and_end(handle: RunHandle, let_go: asyncio.Event, *, is_limited: bool, is_stopped_first: bool) -> None:
    """While nobody serves workflows, so that the next workflow task brings both."""
    for is_stop in (is_stopped_first, not is_stopped_first):
        if not is_stop:
            let_go.set()
            while not await ended_in(handle):
                await asyncio.sleep(0.05)
        elif not is_limited:
            await handle.workflow.cancel()
        else:
            while not await fired_in(handle):
                await asyncio.sleep(0.05)


async def ends_of_calls(dsn: str, execution_id: int) -> list[str]:
    connection = await asyncpg.connect(dsn)
    try:
        query = (
            "SELECT status FROM noetl.event WHERE execution_id = $1 AND event_type IN ('task.done', 'task.cancelled')"
        )
        return [record["status"] for record in await connection.fetch(query, execution_id)]
    finally:
        await connection.close()
