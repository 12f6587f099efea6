"""Find a run by its execution id, or the latest one."""

from __future__ import annotations

from temporalio.service import RPCError

from noetl_temporal.client import NoetlClient, RunHandle, UnknownRunError
from noetl_temporal.deployment import rpc_problem
from noetl_temporal.naming import PLAYBOOK_WORKFLOW

__all__ = ["find_run"]


async def find_run(client: NoetlClient, execution_id: int | None) -> RunHandle:
    """Raises UnknownRunError when Temporal has no such run, DeploymentError."""
    if execution_id is not None:
        return await client.find(execution_id)
    try:
        async for found in client.temporal.list_workflows(f"WorkflowType = '{PLAYBOOK_WORKFLOW}'", limit=1):
            return await client.handle(found.id)
    except RPCError as error:
        raise rpc_problem(error, client.temporal.namespace) or error from error
    raise UnknownRunError("nothing has been run here yet")
