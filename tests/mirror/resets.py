"""Resets a workflow, as somebody does in Temporal's UI, and what that superseded."""

from __future__ import annotations

from typing import Any

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import ResetReapplyExcludeType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowHandle

from noetl_temporal.mirror.read import Database


async def reset(
    client: Client, handle: WorkflowHandle[Any, Any], run_id: str, task: int = 1, *, with_updates: bool = True
) -> str:
    """Reset to this workflow task of the handle's run, that after the first call; the new run's id. The updates that
    came later are delivered again, or not.
    """
    history = await handle.fetch_history()
    done = [event.event_id for event in history.events if event.HasField("workflow_task_completed_event_attributes")]
    answer = await client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=handle.id, run_id=run_id),
            reason="once more",
            workflow_task_finish_event_id=done[task],
            request_id=f"{run_id}/{task}",
            reset_reapply_exclude_types=[]
            if with_updates
            else [ResetReapplyExcludeType.RESET_REAPPLY_EXCLUDE_TYPE_UPDATE],
        )
    )
    return answer.run_id


async def superseded_events(database: Database, execution_id: int) -> frozenset[int]:
    """The ids of the events that resets superseded."""
    records = await database.fetch("SELECT event_id FROM noetl.superseded_events($1)", execution_id)
    return frozenset(record["event_id"] for record in records)
