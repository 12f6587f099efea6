"""A replay makes the ids and commands of the history, although a workflow task had no command, or ended while a local
activity ran.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from temporalio import activity
from temporalio.worker import Worker

from noetl_activities.credentials import CredentialSource
from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, ToolContext
from noetl_temporal.client import NoetlClient, RunHandle
from noetl_temporal.config import connect_temporal
from noetl_temporal.inspection.replay import replay
from noetl_temporal.machine.state import PlaybookState
from noetl_temporal.messages.control_requests import OpenWaits
from noetl_temporal.messages.packed_trail import PackedTrail
from noetl_temporal.mirror.service import follow_execution
from noetl_temporal.naming import TRAIL
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.worker import serving, workflow_worker
from tests.audit import audit_execution

from .conftest import history_of
from .test_stored_values import answer, submit

TOOLS = {"noop": FakeTool("noop", answer)}
REVIEW = "  - step: start\n    tool: {kind: approval, message: Pay it?}\n"
REVIEW_OF_LARGE = """
  - step: start
    tool: {kind: noop, message: large}
    next: {arcs: [{step: review}]}
  - step: review
    tool: {kind: approval, message: "{{ start | length }}"}
"""


def all_served(client: NoetlClient, *only: str) -> Any:
    return serving(client.temporal, TOOLS, CredentialSource(environment={}), only or None)


async def approved_by_another_worker(client: NoetlClient, servers: Addresses, handle: RunHandle) -> list[str]:
    """What is wrong with the log of the run, which a new worker replays and brings to its end."""
    async with all_served(client):
        await handle.approve(by="ann")
        assert (await asyncio.wait_for(handle.result(), 60)).status == "completed"
    mirror = await connect_temporal(servers.temporal, dsn=servers.postgres)
    await follow_execution(mirror, servers.postgres, handle.workflow_id)
    return await audit_execution(servers.postgres, handle.execution_id)


async def pending_activities(handle: RunHandle) -> int:
    return len((await handle.workflow.describe()).raw_description.pending_activities)


async def until_pending(handle: RunHandle, count: int) -> None:
    async with asyncio.timeout(30):
        while await pending_activities(handle) != count:
            await asyncio.sleep(0.05)


async def until_called(client: NoetlClient, handle: RunHandle) -> None:
    """Run the first call, and leave the workflow task that follows to a later worker."""
    async with workflow_worker(client.temporal):
        await until_pending(handle, 1)
    async with all_served(client, "noop"):
        await until_pending(handle, 0)


def answer_queries_slowly(patch: pytest.MonkeyPatch) -> threading.Event:
    """Let queries for waits block the workflow, and it alone, for a second. The event is set when the first begins."""
    is_asked, from_state = threading.Event(), OpenWaits.from_state

    def answered_slowly(state: PlaybookState) -> OpenWaits:
        is_asked.set()
        time.sleep(1)
        return from_state(state)

    patch.setattr(OpenWaits, "from_state", answered_slowly)
    return is_asked


def cache_workflows(patch: pytest.MonkeyPatch, count: int) -> None:
    """Let workers keep at most so many workflows in memory."""

    def caching(*args: Any, **options: Any) -> Worker:
        return Worker(*args, **{**options, "max_cached_workflows": count})

    patch.setattr("noetl_temporal.worker.Worker", caching)


async def test_a_query_is_answered_while_events_are_recorded(
    servers: Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_answered = asyncio.Event()

    @activity.defn(name=TRAIL)
    async def record_later(trail: PackedTrail) -> PackedTrail:
        await is_answered.wait()
        return trail

    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=TOOLS)
    handle = await submit(client, REVIEW)
    waits = asyncio.create_task(handle.waits())  # comes with the first workflow task
    with monkeypatch.context() as patch:
        patch.setattr("noetl_temporal.worker.record_trail", record_later)
        async with all_served(client):
            assert len(await waits) == 1
            is_answered.set()
            await until_recorded(handle)
    assert await approved_by_another_worker(client, servers, handle) == []


async def until_recorded(handle: RunHandle) -> None:
    """Wait until a local activity is in history, in a workflow task after the one that began it."""
    async with asyncio.timeout(30):
        while True:
            events = (await history_of(handle)).events
            names = [event.WhichOneof("attributes") for event in events]
            if "marker_recorded_event_attributes" in names:
                break
            await asyncio.sleep(0.05)
    marker = names.index("marker_recorded_event_attributes")
    assert names[:marker].count("workflow_task_completed_event_attributes") > 1


async def test_a_value_is_loaded_while_a_query_is_answered(servers: Addresses, monkeypatch: pytest.MonkeyPatch) -> None:
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=TOOLS)
    handle = await submit(client, REVIEW_OF_LARGE)
    await until_called(client, handle)
    waits = asyncio.create_task(handle.waits())  # comes with the workflow task that loads the value
    with monkeypatch.context() as patch:
        answer_queries_slowly(patch)
        async with all_served(client):
            await waits
            async with asyncio.timeout(30):
                while not await handle.waits():
                    await asyncio.sleep(0.05)
    assert await approved_by_another_worker(client, servers, handle) == []


TWO_LOOPS = """\
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: short}, {step: long}]}
  - step: short
    loop: {in: [1], iterator: n}
    tool: {kind: noop, message: short}
  - step: long
    loop: {in: [1], iterator: n}
    tool: {kind: noop, message: long}
"""


async def test_a_replay_repeats_a_pause_that_another_worker_received(servers: Addresses) -> None:
    """The short loop ends and nothing follows; then another worker receives the pause."""
    release = asyncio.Event()

    async def answer_when_released(request: Request, context: ToolContext) -> Any:
        del context
        if request.config.get("message") == "long":
            await asyncio.wait_for(release.wait(), 100)
        return 1

    tools = {"noop": FakeTool("noop", answer_when_released)}
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=tools)
    handle = await submit(client, TWO_LOOPS)
    async with serving(client.temporal, tools, CredentialSource(environment={}), only=["noop"]):
        async with workflow_worker(client.temporal):
            await until_handled(handle, "child_workflow_execution_completed_event_attributes")
        async with workflow_worker(client.temporal):
            await handle.pause()
        release.set()
        async with workflow_worker(client.temporal):
            await handle.resume()
            assert (await asyncio.wait_for(handle.result(), 60)).status == "completed"
    assert (await replay(await history_of(handle), client.temporal.data_converter)).problem is None


async def until_handled(handle: RunHandle, event_name: str) -> None:
    """Wait until a workflow task has been completed after this event."""
    async with asyncio.timeout(30):
        while True:
            names = [event.WhichOneof("attributes") for event in (await history_of(handle)).events]
            if event_name in names:
                handled = names[names.index(event_name) :]
                if "workflow_task_completed_event_attributes" in handled:
                    return
            await asyncio.sleep(0.05)


REVIEW_BESIDE_A_CALL = """
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: review}, {step: call}]}
  - step: review
    tool: {kind: approval, message: Pay it?}
  - step: call
    tool: {kind: noop, message: small}
"""


@pytest.mark.parametrize("cached_workflows", [0, 10])
@pytest.mark.parametrize("is_cancelled", [False, True], ids=["pause", "cancel"])
async def test_a_request_while_a_run_continues_as_new_is_not_lost(
    servers: Addresses, monkeypatch: pytest.MonkeyPatch, cached_workflows: int, *, is_cancelled: bool
) -> None:
    """The last events of the run are recorded while a query is answered, and the request comes with the task after."""
    is_sent = asyncio.Event()

    @activity.defn(name=TRAIL)
    async def record_later(trail: PackedTrail) -> PackedTrail:
        await is_sent.wait()
        return trail

    monkeypatch.setattr("noetl_temporal.workflows.workflow_host.SOFT_EVENTS", 8)
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=TOOLS)
    handle = await submit(client, REVIEW_BESIDE_A_CALL)
    await until_called(client, handle)
    waits = asyncio.create_task(handle.waits())  # comes with the workflow task that records events
    with monkeypatch.context() as patch:
        is_asked = answer_queries_slowly(patch)
        patch.setattr("noetl_temporal.worker.record_trail", record_later)
        cache_workflows(patch, cached_workflows)
        async with all_served(client):
            await asyncio.to_thread(is_asked.wait, 30)
            request = asyncio.create_task(handle.cancel() if is_cancelled else handle.pause(by="ann"))
            is_sent.set()
            await waits
            await asyncio.wait_for(request, 60)
            if is_cancelled:
                assert (await asyncio.wait_for(handle.result(), 60)).status == "cancelled"
    first = client.temporal.get_workflow_handle(handle.workflow_id, run_id=handle.run_id)
    assert (await replay(await first.fetch_history(), client.temporal.data_converter)).problem is None
    if not is_cancelled:
        async with all_served(client):
            await handle.resume()
        assert await approved_by_another_worker(client, servers, handle) == []


@pytest.mark.parametrize("cached_workflows", [0, 10])
async def test_a_replay_repeats_a_pause_that_arrived_with_a_loaded_value(
    servers: Addresses, monkeypatch: pytest.MonkeyPatch, cached_workflows: int
) -> None:
    """The value is loaded while a query is answered, and the pause comes with the task after."""
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=TOOLS)
    handle = await submit(client, REVIEW_OF_LARGE)
    await until_called(client, handle)
    waits = asyncio.create_task(handle.waits())  # comes with the workflow task that loads the value
    with monkeypatch.context() as patch:
        is_asked = answer_queries_slowly(patch)
        cache_workflows(patch, cached_workflows)
        async with all_served(client):
            await asyncio.to_thread(is_asked.wait, 30)
            request = asyncio.create_task(handle.pause(by="ann"))
            await waits
            await asyncio.wait_for(request, 60)
    assert (await replay(await history_of(handle), client.temporal.data_converter)).problem is None
    async with all_served(client):
        await handle.resume()
    assert await approved_by_another_worker(client, servers, handle) == []
