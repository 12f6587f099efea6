"""Resets a run around a kill: it continues from one of its earlier workflow tasks."""

from __future__ import annotations

import random
import uuid
from typing import Any

from temporalio.api.common.v1 import WorkflowExecution as ExecutionName
from temporalio.api.enums.v1 import ResetReapplyType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import WorkflowExecutionStatus, WorkflowHandle
from temporalio.service import RPCError

from noetl_temporal.client import NoetlClient

__all__ = ["has_ended", "reset"]

TIMEOUT_SECONDS = 20


async def reset(client: NoetlClient, workflow_id: str, rng: random.Random) -> bool:
    """Reset the current run to any workflow task, as ``temporal workflow reset`` does; False if it cannot be."""
    handle = client.temporal.get_workflow_handle(workflow_id)
    try:
        description = await handle.describe()
        if description.status is not WorkflowExecutionStatus.RUNNING:
            return False
        run_id = description.run_id
        points = await _completed_tasks(client.temporal.get_workflow_handle(workflow_id, run_id=run_id))
        if not points:  # the worker has not responded since the last reset
            return False
        request = ResetWorkflowExecutionRequest(
            namespace=client.temporal.namespace,
            workflow_execution=ExecutionName(workflow_id=workflow_id, run_id=run_id),
            reason="killing",
            request_id=uuid.uuid4().hex,
            workflow_task_finish_event_id=rng.choice(points),
            reset_reapply_type=ResetReapplyType.RESET_REAPPLY_TYPE_ALL_ELIGIBLE,
        )
        await client.temporal.workflow_service.reset_workflow_execution(request)
    except (RPCError, OSError) as error:
        print(f"not reset: {error}"[:200], flush=True)
        return False
    return True


async def _completed_tasks(handle: WorkflowHandle[Any, Any]) -> list[int]:
    """Return the ids of the events that completed the workflow tasks of a run."""
    history = await handle.fetch_history()
    return [event.event_id for event in history.events if event.HasField("workflow_task_completed_event_attributes")]


async def has_ended(client: NoetlClient, workflow_id: str) -> bool:
    """Whether the current run has ended."""
    description = await client.temporal.get_workflow_handle(workflow_id).describe()
    return description.status is not WorkflowExecutionStatus.RUNNING
