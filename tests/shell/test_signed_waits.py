"""Signals and decisions under a signing key: those of other accounts do not get through, nor do repeated ones."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import WorkflowHandle, WorkflowUpdateFailedError
from temporalio.common import RawValue

from noetl_temporal.ids import new_execution_id
from noetl_temporal.machine.waits.wait import Signal, Wait
from noetl_temporal.messages.control_requests import ClosedWait, DecisionRequest, OpenedWait, SignalRequest
from noetl_temporal.naming import CLOSE_SIGNAL, DECIDE_UPDATE, OPEN_SIGNAL, SIGNAL_UPDATE
from noetl_temporal.stack.addresses import Addresses

from .test_signed_runs import Site, hello, site

WAITS = """
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: paid}, {step: review}]}
  - {step: paid, tool: {kind: wait, signal: paid}, next: {arcs: [{step: again}]}}
  - {step: again, tool: {kind: wait, signal: paid}}
  - {step: review, tool: {kind: approval}}
"""


async def send_forged(workflow: WorkflowHandle[Any, Any], wait: Wait) -> list[BaseException | None]:
    """What became of each request."""
    requests = [
        (SIGNAL_UPDATE, SignalRequest(new_execution_id(), Signal("paid", "forged"))),
        (DECIDE_UPDATE, DecisionRequest(new_execution_id(), wait.id, True, "ann")),
    ]
    exceptions: list[BaseException | None] = []
    for name, request in requests:
        try:
            await workflow.execute_update(name, request)  # pyright: ignore[reportUnknownMemberType] - the SDK's type
            exceptions.append(None)
        except WorkflowUpdateFailedError as error:
            exceptions.append(error.cause)
    await workflow.signal(OPEN_SIGNAL, OpenedWait("", Wait("x", "signal", "x", "x", "x", 0, signal="paid", chunk="x")))
    await workflow.signal(CLOSE_SIGNAL, ClosedWait("", wait.id, returned=Signal("paid", "forged")))
    return exceptions


async def waiting(cluster: Site) -> tuple[Any, Wait]:
    handle = await cluster.submit(WAITS)
    async with asyncio.timeout(30):
        while len(waits := await handle.waits()) < 2:
            await asyncio.sleep(0.05)
    return handle, next(wait for wait in waits if wait.kind == "approval")


@pytest.mark.parametrize("is_keyed", [True, False], ids=["guarded", "control"])
async def test_requests_without_the_key_are_refused(
    servers: Addresses, monkeypatch: pytest.MonkeyPatch, is_keyed: bool
) -> None:
    async with site(servers, monkeypatch, hello, is_keyed=is_keyed) as cluster:
        handle, wait = await waiting(cluster)
        errors = await send_forged(cluster.foreign.get_workflow_handle(handle.workflow_id), wait)
        if is_keyed:
            assert all("is not signed" in str(error) for error in errors), errors
            assert sorted(entry.name for entry in await handle.waits()) == ["paid", "review"]
            await handle.approve(by="ann")
            await handle.signal("paid", 1)
            await handle.signal("paid", 2)
        else:
            assert errors == [None, None]
            await handle.signal("paid", 2)
        report = await handle.result()
    assert report.status == "completed"


async def test_a_repeated_signed_request_has_no_second_effect(
    servers: Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who reads the history has a signed request, and no key."""
    async with site(servers, monkeypatch, hello) as cluster:
        handle, wait = await waiting(cluster)
        await handle.signal("paid", "once")
        responses = [
            history.workflow_execution_update_accepted_event_attributes.accepted_request.input.args.payloads
            for history in await cluster.history(handle)
            if history.HasField("workflow_execution_update_accepted_event_attributes")
        ]
        stolen: Payload = responses[0][0]
        other = await cluster.submit(WAITS)
        foreign = [cluster.foreign.get_workflow_handle(workflow.workflow_id) for workflow in (handle, other)]
        await foreign[0].execute_update(SIGNAL_UPDATE, RawValue(stolen))  # pyright: ignore[reportUnknownMemberType] - the SDK's type
        with pytest.raises(WorkflowUpdateFailedError):
            await foreign[1].execute_update(SIGNAL_UPDATE, RawValue(stolen))  # pyright: ignore[reportUnknownMemberType] - the SDK's type
        assert sorted(entry.name for entry in await handle.waits()) == ["again", "review"]
        await handle.approve(by="ann")
        await handle.signal("paid", "twice")
        assert (await handle.result()).status == "completed"
        await other.cancel()
        await other.result()
        assert wait.kind == "approval"
