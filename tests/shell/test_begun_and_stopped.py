"""A call that begins and is cancelled in one workflow task: its command carries the events before it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType

from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, ToolContext
from noetl_temporal.client import NoetlClient
from noetl_temporal.mirror.service import follow_execution
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.worker import tool_worker, workflow_worker
from tests.audit import audit_execution

from .conftest import Shell

WAITS = "  - step: start\n    tool: {kind: wait, signal: go}\n    next: {arcs: [{step: end}]}\n"
CALL = "  - step: end\n    tool: {kind: noop}\n"
LOOP = "  - step: end\n    loop: {in: [1, 2], iterator: item}\n    tool: {kind: noop}\n"


@pytest.mark.parametrize("end", [CALL, LOOP], ids=["a call", "a loop"])
async def test_no_event_is_lost_when_the_cleanup_is_skipped(servers: Addresses, shell: Shell, end: str) -> None:
    async def answer(_request: Request, _context: ToolContext) -> Any:
        await asyncio.sleep(3600)

    tools = {"noop": FakeTool("noop", answer)}
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=tools)
    async with AsyncExitStack() as stack, asyncio.timeout(120):
        await stack.enter_async_context(tool_worker(client.temporal, tools["noop"], shell.credentials))
        async with workflow_worker(client.temporal):
            handle = await Shell.submit(client, WAITS + end)
            while not any(
                event.event_type == EventType.EVENT_TYPE_MARKER_RECORDED
                for event in (await handle.workflow.fetch_history()).events
            ):
                await asyncio.sleep(0.05)
        for _ in range(2):
            await handle.cancel()
        await stack.enter_async_context(workflow_worker(client.temporal))
        assert (await handle.result()).status == "cancelled"
    await follow_execution(client.temporal, servers.postgres, handle.workflow_id)
    assert await audit_execution(servers.postgres, handle.execution_id) == []
