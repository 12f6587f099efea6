"""Find a run by its execution id, or the latest one, and its event log."""

from __future__ import annotations

import asyncpg
from temporalio.service import RPCError

from noetl_temporal.client import NoetlClient, RunHandle, UnknownRunError
from noetl_temporal.deployment import rpc_problem
from noetl_temporal.naming import PLAYBOOK_WORKFLOW

__all__ = ["count_events", "find_run"]

_COUNT = "SELECT count(*) FROM noetl.event WHERE execution_id = $1"


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


async def count_events(client: NoetlClient, handle: RunHandle) -> int:
    """Rows of a run in the event log, 0 where there is no log to be had."""
    if client.dsn is None:
        return 0
    try:
        async with asyncpg.create_pool(client.dsn, min_size=1, max_size=1) as pool:
            return int(await pool.fetchval(_COUNT, handle.execution_id))
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        return 0
