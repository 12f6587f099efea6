"""Find a run by its execution id, or the latest one."""

from __future__ import annotations

from temporalio.service import RPCError

from noetl_temporal.naming import PLAYBOOK_WORKFLOW
from noetl_temporal.runs import RunHandle, Runs, UnknownRunError
from noetl_temporal.temporal_problems import rpc_problem

__all__ = ["find_run"]


async def find_run(runs: Runs, execution_id: int | None) -> RunHandle:
    """Raises UnknownRunError when Temporal has no such run, DeploymentError."""
    if execution_id is not None:
        return await runs.find(execution_id)
    try:
        query = f"WorkflowType = '{PLAYBOOK_WORKFLOW}' AND ParentWorkflowId IS NULL"  # that no other has called
        async for found in runs.temporal.list_workflows(query, limit=1):
            return await runs.handle(found.id)
    except RPCError as error:
        raise rpc_problem(error, runs.temporal.namespace) or error from error
    raise UnknownRunError("nothing has run here yet")
