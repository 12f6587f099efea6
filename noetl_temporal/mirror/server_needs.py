"""Finds what the Temporal server still needs: executions whose payloads a prune must keep, and payloads of schedules.

An execution keeps its payloads while the server has any run of it: the run is open, or closed within the retention, so
that it can be shown and reset. Payloads that a schedule refers to are kept as well.

A payload gets its owner when the mirror reads the event that refers to it; until then it is kept because it is new.
That is not enough for a run that began before the cutoff of a prune. Such a run blocks the removal of all payloads
stored since it began, unless the mirror has read all of its history and it has no call in progress: the history refers
to what a call stored, for instance a frame's segments, only when the call ends.
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
from noetl_temporal.mirror.connection import Connection
from noetl_temporal.mirror.owners import references
from noetl_temporal.mirror.storable import storable_text
from noetl_temporal.visibility import NOETL_WORKFLOWS

__all__ = ["BlockingRun", "ServerNeeds", "find_server_needs", "retention"]

_BATCH = 1000
"""The number of runs that are looked up with one query."""

_CONCURRENT_REQUESTS = 20
"""The number of runs that are described concurrently."""

_MARGIN = timedelta(days=1)
"""How long before the start of a run its payloads may have been stored: a client stores the graph first, and clocks
differ."""


class BlockingRun(msgspec.Struct, frozen=True, order=True):
    """A run that blocks removal: any payload stored since ``since`` may belong to it."""

    since: datetime
    workflow_id: str
    run_id: str


class ServerNeeds(NamedTuple):
    """What a Temporal namespace still needs: ``executions`` that have runs at the server, and the ``keys`` of payloads
    that schedules refer to. ``blocked_by`` is the blocking run with the earliest ``since``.
    """

    executions: set[int]
    keys: set[str]
    blocked_by: BlockingRun | None


class _Progress(NamedTuple):
    """The number of events of a run that were read, whether it has read all, and the time of the first."""

    position: int = 0
    is_read: bool = False
    start_time: datetime | None = None


async def retention(client: Client) -> timedelta:
    """Return how long the client's namespace keeps closed runs. Raises RPCError."""
    request = DescribeNamespaceRequest(namespace=client.namespace)
    description = await client.workflow_service.describe_namespace(request)
    return description.config.workflow_execution_retention_ttl.ToTimedelta()


async def find_server_needs(client: Client, connection: Connection, cutoff: datetime) -> ServerNeeds:
    """Return what the client's namespace needs of the payloads stored before ``cutoff``. Raises RPCError, asyncpg's
    errors.
    """
    executions: set[int] = set()
    blocking: list[BlockingRun] = []
    async for runs in _batches(client):
        executions |= await _executions(client, connection, runs)
        progress = await _progress(client, connection, runs)
        for start in range(0, len(runs), _CONCURRENT_REQUESTS):
            batch = runs[start : start + _CONCURRENT_REQUESTS]
            checks = (_blocking_run(client, run, progress.get(run.run_id, _Progress()), cutoff) for run in batch)
            blocking += [blocking_run for blocking_run in await asyncio.gather(*checks) if blocking_run is not None]
    return ServerNeeds(executions, await _keys_of_schedules(client), min(blocking, default=None))


async def _batches(client: Client) -> AsyncIterator[list[WorkflowExecution]]:
    """Yield all runs of the namespace that can be mirrored, in batches."""
    batch: list[WorkflowExecution] = []
    async for run in client.list_workflows(NOETL_WORKFLOWS, page_size=_BATCH):
        if storable_text(run.id) == run.id:
            batch.append(run)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    yield batch


async def _executions(client: Client, connection: Connection, runs: Sequence[WorkflowExecution]) -> set[int]:
    """Return the executions of the runs; for a run unknown to the mirror, that of its parent or root workflow."""
    workflows = {name for run in runs for name in (run.id, run.parent_id, run.root_id) if name}
    names = list(map(storable_text, workflows))
    records = await connection.fetch(sql.query("executions_of_workflows"), client.namespace, names)
    return {record["execution_id"] for record in records}


async def _progress(client: Client, connection: Connection, runs: Sequence[WorkflowExecution]) -> dict[str, _Progress]:
    """Return the progress of the runs that the mirror knows, by run id."""
    columns = [run.id for run in runs], [run.run_id for run in runs]
    records = await connection.fetch(sql.query("runs_progress"), client.namespace, *columns)
    return {record["run_id"]: _Progress(*record[1:]) for record in records}


async def _blocking_run(
    client: Client, run: WorkflowExecution, progress: _Progress, cutoff: datetime
) -> BlockingRun | None:
    since = await _stored_since(client, run, progress, cutoff)
    return None if since is None else BlockingRun(since - _MARGIN, run.id, run.run_id)


async def _stored_since(
    client: Client, run: WorkflowExecution, progress: _Progress, cutoff: datetime
) -> datetime | None:
    """Return the earliest time at which payloads without an owner may have been stored for the run; None if that is not
    before ``cutoff``.

    Payloads of the run's input get an owner when the mirror reads its first event; all others were stored later. A run
    that a reset created has the first event of its base: the server gives it a later start, but its history refers to
    payloads stored before the reset.
    """
    if progress.is_read or (progress.start_time is not None and progress.start_time >= cutoff):
        return None
    try:
        description = await client.get_workflow_handle(run.id, run_id=run.run_id).describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise
    if progress.start_time is not None:
        return None if _is_idle(description, progress.position) else progress.start_time
    since = description.raw_description.workflow_extended_info.original_start_time.ToDatetime(UTC)
    return since if since < cutoff else None


def _is_idle(description: WorkflowExecutionDescription, position: int) -> bool:
    """Whether the run is open, waits only for timers, signals and children, and its whole history has been read."""
    raw = description.raw_description
    is_open = description.close_time is None
    is_waiting = not raw.pending_activities and not raw.HasField("pending_workflow_task")
    return is_open and is_waiting and description.history_length == position


async def _keys_of_schedules(client: Client) -> set[str]:
    """Return the keys of the payloads in the input of scheduled runs."""
    keys: set[str] = set()
    async for schedule in await client.list_schedules():
        description = await client.get_schedule_handle(schedule.id).describe()
        keys |= references(description.raw_description.schedule)
    return keys
