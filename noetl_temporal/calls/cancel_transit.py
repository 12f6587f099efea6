"""Waits for a cancel that is in transit to a call when the next attempt of the call starts.

A cancel is first recorded in the history of the run. A workflow worker then passes it to the calls, through the loops
that contain them. If no such worker is available for a while, a call that was interrupted with its worker would start
again after the cancel. So its next attempt asks the server, and waits while its workflow or an ancestor of that has an
unprocessed cancel; the heartbeat then delivers it. Calls in the cleanup of a cancelled run get no cancel, and continue.
"""

from __future__ import annotations

import asyncio

from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse
from temporalio.client import Client
from temporalio.service import RPCError

__all__ = ["wait_for_cancel_transit"]

CHECK_SECONDS = 0.5
"""Seconds between two checks. While a cancel passes from one workflow to the next, which takes some milliseconds,
neither shows it: so only two checks in a row without one show that it has arrived."""

CANCEL_REQUESTED = PendingActivityState.PENDING_ACTIVITY_STATE_CANCEL_REQUESTED


async def wait_for_cancel_transit(client: Client, workflow_id: str, activity_id: str) -> None:
    """Wait until no cancel is in transit to the activity; return immediately if its run was not cancelled, or if the
    server is unavailable.
    """
    quiet_checks = 0
    try:
        while quiet_checks < 2:
            workflows = await _workflow_and_ancestors(client, workflow_id)
            if not any(response.workflow_extended_info.cancel_requested for response in workflows):
                return
            is_in_transit = any(response.HasField("pending_workflow_task") for response in workflows)
            quiet_checks = 0 if is_in_transit or _is_cancelled(workflows[0], activity_id) else quiet_checks + 1
            await asyncio.sleep(CHECK_SECONDS)
    except RPCError:
        return


async def _workflow_and_ancestors(client: Client, workflow_id: str) -> list[DescribeWorkflowExecutionResponse]:
    """Return the descriptions of the workflow and of its ancestors, the run's last."""
    responses: list[DescribeWorkflowExecutionResponse] = []
    while workflow_id:
        responses.append((await client.get_workflow_handle(workflow_id).describe()).raw_description)
        workflow_id = responses[-1].workflow_execution_info.parent_execution.workflow_id
    return responses


def _is_cancelled(workflow: DescribeWorkflowExecutionResponse, activity_id: str) -> bool:
    pending = workflow.pending_activities
    return any(call.activity_id == activity_id and call.state == CANCEL_REQUESTED for call in pending)
