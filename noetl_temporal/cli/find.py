"""Find a run by its execution id, or the latest one, and its event log."""

from __future__ import annotations

import click
from temporalio.service import RPCError

from noetl_temporal.cli.event_log import event_log
from noetl_temporal.cli.log_facts import FACT_EVENTS, LogFacts
from noetl_temporal.client import NoetlClient, RunHandle, UnknownRunError
from noetl_temporal.deployment import DeploymentError, rpc_problem
from noetl_temporal.mirror.read import events_of
from noetl_temporal.naming import PLAYBOOK_WORKFLOW

__all__ = ["facts_of", "find_run"]

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


async def facts_of(client: NoetlClient, handle: RunHandle) -> LogFacts:
    """What the event log says of a run, nothing where there is no log; why there is none is told on stderr."""
    if client.dsn is None:
        return LogFacts()
    try:
        async with event_log(client.dsn) as log:
            rows = await events_of(log, handle.execution_id, types=FACT_EVENTS)
            return LogFacts(rows, int(await log.fetchval(_COUNT, handle.execution_id)))
    except DeploymentError as problem:
        click.echo(f"no events: {problem}", err=True)
        return LogFacts()
