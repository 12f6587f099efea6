"""Pauses and resumes, in Temporal, the calls in flight of a paused run: all of them with ``noetl pause --now``,
otherwise only its frames, which would start further items.

A paused activity is interrupted at its next heartbeat, and its call is retried when it is unpaused. Only activities
with the reason PAUSE_REASON are unpaused: an operator may have paused others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import (
    DescribeWorkflowExecutionResponse,
    PauseActivityRequest,
    UnpauseActivityRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from noetl_temporal.messages.frame import FRAME_KIND
from noetl_temporal.naming import DETACHED_MEMO, PAUSE_REASON, activity_type

__all__ = ["pause_calls", "unpause_calls"]

_MAX_PASSES = 10
"""How often the calls in flight are listed: the pause reaches loops and called playbooks some time after the run."""

_PASS_SECONDS = 0.3
"""Seconds between two passes."""


async def pause_calls(client: Client, workflow_id: str, *, frames_only: bool) -> int:
    """Pause the calls in flight in Temporal; return how many were paused. Raises RPCError."""
    total = 0
    for _ in range(_MAX_PASSES):
        count = 0
        async for execution, call in _calls_in_flight(client, workflow_id):
            if not call.paused and (not frames_only or call.activity_type.name == activity_type(FRAME_KIND)):
                count += await _pause(client, execution, call)
        total += count
        if not count:
            break
        await asyncio.sleep(_PASS_SECONDS)
    return total


async def unpause_calls(client: Client, workflow_id: str) -> int:
    """Resume the calls that ``pause_calls`` paused; return how many were resumed. Raises RPCError."""
    count = 0
    async for execution, call in _calls_in_flight(client, workflow_id):
        if call.paused and call.pause_info.manual.reason == PAUSE_REASON:
            count += await _unpause(client, execution, call)
    return count


async def _pause(client: Client, execution: WorkflowExecution, call: PendingActivityInfo) -> bool:
    request = PauseActivityRequest(
        namespace=client.namespace,
        execution=execution,
        identity=client.identity,
        id=call.activity_id,
        reason=PAUSE_REASON,
    )
    try:
        await client.workflow_service.pause_activity(request)
    except RPCError as error:
        _ignore_ended(error)
        return False
    return True


async def _unpause(client: Client, execution: WorkflowExecution, call: PendingActivityInfo) -> bool:
    request = UnpauseActivityRequest(
        namespace=client.namespace, execution=execution, identity=client.identity, id=call.activity_id
    )
    try:
        await client.workflow_service.unpause_activity(request)
    except RPCError as error:
        _ignore_ended(error)
        return False
    return True


def _ignore_ended(error: RPCError) -> None:
    """Ignore the error for a call that ended before it was paused. Raises any other error."""
    if error.status is not RPCStatusCode.NOT_FOUND:
        raise error


async def _calls_in_flight(
    client: Client, workflow_id: str
) -> AsyncIterator[tuple[WorkflowExecution, PendingActivityInfo]]:
    """Yield the calls of the run, its loops, and the playbooks that it waits for."""
    ids = deque([workflow_id])
    while ids:
        try:
            description = (await client.get_workflow_handle(ids.popleft()).describe()).raw_description
        except RPCError as error:
            _ignore_ended(error)
            continue
        if _is_detached(description):
            continue
        ids += [child.workflow_id for child in description.pending_children]
        for call in description.pending_activities:
            yield description.workflow_execution_info.execution, call


def _is_detached(description: DescribeWorkflowExecutionResponse) -> bool:
    """Whether the caller of the workflow does not wait for it."""
    return DETACHED_MEMO in description.workflow_execution_info.memo.fields
