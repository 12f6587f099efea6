"""Ends the chunks that a run began after the point to which a person has reset it.

A reset copies the history up to that point into a new run, and terminates the old one. The server ends no child then,
whatever its parent close policy: the new run takes over those that stand in its history. A chunk that the old run began
later would go on with its calls, until the new run begins a chunk with the same id.

So the first workflow task after a reset starts a local activity that terminates those chunks. It finds them by
visibility, as the history of the new run does not name them. One that visibility does not list yet goes on as before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client, WorkflowHandle
from temporalio.common import RetryPolicy
from temporalio.service import RPCError, RPCStatusCode

from noetl_temporal.naming import LOOP_WORKFLOW

__all__ = ["orphan_activity", "start_ending"]

END_ORPHANS = "noetl.end-orphans"
REASON = "its playbook was reset to a point before it began"

_SECONDS = timedelta(seconds=10)
_RETRY = RetryPolicy(maximum_attempts=3)


def orphan_activity(client: Client) -> Callable[..., Any]:
    """The local activity, of the workers of workflows."""

    @activity.defn(name=END_ORPHANS)
    async def end_orphans(owned: list[str]) -> int:
        """Terminate all running chunks but these; how many. Those that this run itself has begun meanwhile stay."""
        info, count = activity.info(), 0
        parent = (info.workflow_id or "").replace("'", "''")
        query = f"WorkflowType = '{LOOP_WORKFLOW}' AND ExecutionStatus = 'Running' AND ParentWorkflowId = '{parent}'"
        async for one in client.list_workflows(query):
            if one.id in owned or one.raw_info.parent_execution.run_id == info.workflow_run_id:
                continue
            count += await _terminated(client.get_workflow_handle(one.id, run_id=one.run_id))
        return count

    return end_orphans


async def _terminated(chunk: WorkflowHandle[Any, Any]) -> bool:
    """Terminate it; False when it has ended meanwhile."""
    try:
        await chunk.terminate(reason=REASON)
    except RPCError as error:
        if error.status != RPCStatusCode.NOT_FOUND:
            raise
        return False
    return True


def start_ending(owned: Sequence[str]) -> workflow.ActivityHandle[int]:
    """Terminate the chunks that this run does not have; ``owned`` are the workflow ids of those that it has."""
    return workflow.start_local_activity(
        END_ORPHANS,
        list(owned),
        result_type=int,
        start_to_close_timeout=_SECONDS,
        retry_policy=_RETRY,
        summary="end chunks of the run before the reset",
    )
