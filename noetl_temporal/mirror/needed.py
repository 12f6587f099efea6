"""What Temporal may still need of the payloads, asked of the server itself.

An execution of which the server has any run is left alone: that run is open, or within the retention, where people look
at it and reset it. So is what a schedule names.

What a run stores is owned once the mirror has read the event that names it, and protected by its age before. That is
not enough where the run is older than the limit of a prune. So of each such run it is asked whether the mirror has read
all of it, and whether no call is under way: one may have stored long ago what history names when it ends, as frames do.
Otherwise the run holds all that was stored since it began.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client, WorkflowExecution, WorkflowExecutionDescription
from temporalio.service import RPCError, RPCStatusCode

from noetl_temporal.mirror import sql
from noetl_temporal.mirror.event_table import Connection
from noetl_temporal.mirror.owners import references
from noetl_temporal.mirror.raw import LOOP, PLAYBOOK

__all__ = ["Held", "Needed", "needed", "retention"]

_BATCH = 1000
_DESCRIBED = 20
"""Runs that are asked for at once."""

_MARGIN = timedelta(days=1)
"""A client stores a run's graph before it starts the run, and clocks differ."""


class Held(msgspec.Struct, frozen=True, order=True):
    """What was stored from ``since`` on may belong to this run."""

    since: datetime
    workflow_id: str
    run_id: str


class Needed(NamedTuple):
    """``executions`` have a run at the server, schedules name ``keys``; ``held`` is told of the run that holds most."""

    executions: set[int]
    keys: set[str]
    held: Held | None


class _Progress(NamedTuple):
    """How many events of a run the mirror has read, and whether the last."""

    position: int = 0
    is_read: bool = False


async def retention(client: Client) -> timedelta:
    """How long the client's namespace keeps closed runs. Raises RPCError."""
    request = DescribeNamespaceRequest(namespace=client.namespace)
    described = await client.workflow_service.describe_namespace(request)
    return described.config.workflow_execution_retention_ttl.ToTimedelta()


async def needed(client: Client, connection: Connection, cutoff: datetime) -> Needed:
    """What the client's namespace needs of that stored before ``cutoff``. Raises RPCError, asyncpg's errors."""
    executions: set[int] = set()
    held: list[Held] = []
    async for runs in _batches(client):
        executions |= await _executions(client, connection, runs)
        progress = await _progress(client, connection, runs)
        for start in range(0, len(runs), _DESCRIBED):
            some = runs[start : start + _DESCRIBED]
            asked = (_held(client, run, progress.get(run.run_id, _Progress()), cutoff) for run in some)
            held += [one for one in await asyncio.gather(*asked) if one is not None]
    return Needed(executions, await _scheduled(client), min(held, default=None))


async def _batches(client: Client) -> AsyncIterator[list[WorkflowExecution]]:
    """All runs of the namespace, some at a time."""
    batch: list[WorkflowExecution] = []
    async for run in client.list_workflows(f"WorkflowType IN ('{PLAYBOOK}', '{LOOP}')", page_size=_BATCH):
        batch.append(run)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    yield batch


async def _executions(client: Client, connection: Connection, runs: Sequence[WorkflowExecution]) -> set[int]:
    """The executions of the runs. One that is not known yet tells its own by the workflow that began it."""
    workflows = {name for run in runs for name in (run.id, run.parent_id, run.root_id) if name}
    found = await connection.fetch(sql.query("executions_of_workflows"), client.namespace, list(workflows))
    return {record["execution_id"] for record in found}


async def _progress(client: Client, connection: Connection, runs: Sequence[WorkflowExecution]) -> dict[str, _Progress]:
    """Of the runs that the mirror knows, by run id."""
    columns = [run.id for run in runs], [run.run_id for run in runs]
    found = await connection.fetch(sql.query("how_far"), client.namespace, *columns)
    return {record["run_id"]: _Progress(record["position"], record["is_read"]) for record in found}


async def _held(client: Client, run: WorkflowExecution, progress: _Progress, cutoff: datetime) -> Held | None:
    since = await _since(client, run, progress, cutoff)
    return None if since is None else Held(since - _MARGIN, run.id, run.run_id)


async def _since(client: Client, run: WorkflowExecution, progress: _Progress, cutoff: datetime) -> datetime | None:
    """Since when what was stored may belong to the run and have no owner; None when nothing of before ``cutoff`` does.

    With its first event the mirror has read what the run was given by those before it: the rest came after its start.
    """
    if progress.position and (run.start_time >= cutoff or progress.is_read):
        return None
    try:
        described = await client.get_workflow_handle(run.id, run_id=run.run_id).describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise
    if progress.position:
        return None if _is_idle(described, progress.position) else run.start_time
    since = described.raw_description.workflow_extended_info.original_start_time.ToDatetime(UTC)
    return since if since < cutoff else None


def _is_idle(described: WorkflowExecutionDescription, position: int) -> bool:
    """Whether an open run waits for nothing but timers, signals and children, and has been read up to now."""
    raw = described.raw_description
    is_open = described.close_time is None
    is_waiting = not raw.pending_activities and not raw.HasField("pending_workflow_task")
    return is_open and is_waiting and described.history_length == position


async def _scheduled(client: Client) -> set[str]:
    """What the schedules of the namespace give to the runs that they start, maybe in a year."""
    keys: set[str] = set()
    async for schedule in await client.list_schedules():
        described = await client.get_schedule_handle(schedule.id).describe()
        keys |= references(described.raw_description.schedule)
    return keys
