"""Find a run by its execution id, or the latest one."""

from __future__ import annotations

from noetl_temporal.client import NoetlClient, RunHandle
from noetl_temporal.naming import EXECUTION_ID, PLAYBOOK_WORKFLOW
from noetl_temporal.stack.errors import StackError

__all__ = ["find_run"]


async def find_run(client: NoetlClient, execution_id: int | None) -> RunHandle:
    """Raises StackError when there is no such run."""
    query = f"WorkflowType = '{PLAYBOOK_WORKFLOW}'"
    if execution_id is not None:
        query += f" AND {EXECUTION_ID.name} = {execution_id}"
    async for found in client.temporal.list_workflows(query, page_size=1, limit=1):
        return client.handle(found.id)
    raise StackError("nothing has been run here yet" if execution_id is None else f"there is no run {execution_id}")
