"""A replay makes the ids that history carries, although a workflow task ended while a local activity ran."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from temporalio import activity

from noetl_activities.credentials import CredentialSource
from noetl_activities.testing import FakeTool
from noetl_temporal.client import NoetlClient, RunHandle
from noetl_temporal.config import connect_temporal
from noetl_temporal.control_requests import OpenWaits
from noetl_temporal.machine.state import PlaybookState
from noetl_temporal.mirror.service import follow_execution
from noetl_temporal.packed_trail import PackedTrail
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.trail import HEADER
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


async def test_a_query_is_answered_while_events_are_recorded(
    servers: Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_answered = asyncio.Event()

    @activity.defn(name=HEADER)
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
    of = OpenWaits.of

    def answered_slowly(state: PlaybookState) -> OpenWaits:
        time.sleep(0.3)  # blocks the workflow alone
        return of(state)

    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=TOOLS)
    handle = await submit(client, REVIEW_OF_LARGE)
    async with workflow_worker(client.temporal):
        await until_pending(handle, 1)
    async with all_served(client, "noop"):
        await until_pending(handle, 0)
    waits = asyncio.create_task(handle.waits())  # comes with the workflow task that loads the value
    with monkeypatch.context() as patch:
        patch.setattr(OpenWaits, "of", answered_slowly)
        async with all_served(client):
            await waits
            async with asyncio.timeout(30):
                while not await handle.waits():
                    await asyncio.sleep(0.05)
    assert await approved_by_another_worker(client, servers, handle) == []
