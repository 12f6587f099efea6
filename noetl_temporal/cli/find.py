"""Find a run by its execution id, or the latest one, and its event log."""

from __future__ import annotations

import asyncpg

from noetl_temporal.client import NoetlClient, RunHandle
from noetl_temporal.mirror.read import Event, events_of
from noetl_temporal.naming import EXECUTION_ID, PLAYBOOK_WORKFLOW
from noetl_temporal.stack.errors import StackError

__all__ = ["events_of_run", "find_run"]


async def find_run(client: NoetlClient, execution_id: int | None) -> RunHandle:
    """Raises StackError when there is no such run."""
    query = f"WorkflowType = '{PLAYBOOK_WORKFLOW}'"
    if execution_id is not None:
        query += f" AND {EXECUTION_ID.name} = {execution_id}"
    async for found in client.temporal.list_workflows(query, page_size=1, limit=1):
        return client.handle(found.id)
    raise StackError("nothing has been run here yet" if execution_id is None else f"there is no run {execution_id}")


async def events_of_run(client: NoetlClient, handle: RunHandle) -> list[Event]:
    """The event log of a run, empty where no Postgres is known."""
    if client.dsn is None:
        return []
    async with asyncpg.create_pool(client.dsn, min_size=1, max_size=1) as pool:
        return await events_of(pool, handle.execution_id)
