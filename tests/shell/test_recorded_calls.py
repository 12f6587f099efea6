"""Which calls a recorded run has, and when they were in progress."""

from __future__ import annotations

import asyncio

from temporalio.api.enums.v1 import EventType

from noetl_activities.testing import FakeTool
from noetl_temporal.client import NoetlClient, RunHandle
from noetl_temporal.payloads.codec import data_converter
from noetl_temporal.playbook_tests.recorded_runs import recorded_run
from noetl_temporal.stack.addresses import Addresses

from .conftest import Shell, history_of


async def test_a_call_that_no_worker_started_was_in_progress_until_it_was_cancelled(
    shell: Shell, servers: Addresses
) -> None:
    step = "  - step: start\n    tool: {kind: python, code: 'result = 1'}\n"
    async with shell.client(_answer) as client:
        client_of_more_tools = NoetlClient(client.temporal, servers.postgres, {"python": FakeTool("python", _answer)})
        run = await shell.submit(client_of_more_tools, step)
        async with asyncio.timeout(30):
            while not await _has_scheduled_call(run):
                await asyncio.sleep(0.05)
        await run.cancel("enough")
        await run.result()
        recorded = await recorded_run(client.temporal, data_converter(servers.postgres), run.workflow_id)
    [call], [request] = recorded.calls.values(), recorded.requests
    assert call.report is None
    assert call.is_running_at(request.at)
    assert call.closed is not None
    assert not call.is_running_at(call.scheduled - 1)
    assert not call.is_running_at(call.closed + 1)


def _answer(*_: object) -> int:
    return 1


async def _has_scheduled_call(run: RunHandle) -> bool:
    events = (await history_of(run)).events
    return any(event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED for event in events)
