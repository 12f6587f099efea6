"""Lists runs from the event log, which has all of them, or from Temporal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import asyncpg
import msgspec
from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus

from noetl_temporal.connection_pools import Connection, run_on_pool
from noetl_temporal.control.paused_workflows import is_paused
from noetl_temporal.event_ids import millisecond_of
from noetl_temporal.mirror import sql
from noetl_temporal.naming import RunStatus
from noetl_temporal.search_attributes import EXECUTION_ID, PATH, PAUSED, SCHEDULE, STATUS, VERSION
from noetl_temporal.visibility import OPEN, PLAYBOOKS, execution_ids, literal

__all__ = ["ListedRun", "RunFilter", "latest_run", "runs_in_log", "runs_in_temporal"]

_TO_TEMPORAL: dict[RunStatus, tuple[WorkflowExecutionStatus, str]] = {
    "running": (WorkflowExecutionStatus.RUNNING, "Running"),
    "paused": (WorkflowExecutionStatus.RUNNING, "Running"),
    "completed": (WorkflowExecutionStatus.COMPLETED, "Completed"),
    "partial": (WorkflowExecutionStatus.COMPLETED, "Completed"),
    "failed": (WorkflowExecutionStatus.FAILED, "Failed"),
    "cancelled": (WorkflowExecutionStatus.CANCELED, "Canceled"),
    "terminated": (WorkflowExecutionStatus.TERMINATED, "Terminated"),
    "timed_out": (WorkflowExecutionStatus.TIMED_OUT, "TimedOut"),
}
"""Temporal's status of a run with our status: its value in the SDK, and its name in list filters."""

_REFINED: dict[RunStatus, RunStatus] = {"paused": "running", "partial": "completed"}
"""Statuses that Temporal does not distinguish from another one: a run that is paused or holds a step is running, a
partial one is completed. The search attribute NoetlStatus distinguishes them."""

_FROM_TEMPORAL: dict[WorkflowExecutionStatus, RunStatus] = {
    temporal_status: status for status, (temporal_status, _) in _TO_TEMPORAL.items() if status not in _REFINED
}


class RunFilter(msgspec.Struct, frozen=True):
    """Selects the latest ``limit`` runs: of a ``path``, or of all paths with a prefix if it ends in ``*``; with one of
    the ``statuses``, any if there are none; started at ``since`` or later, and ended at ``ended_since`` or later.
    """

    path: str | None = None
    statuses: Sequence[RunStatus] = ()
    since: datetime | None = None
    limit: int = 20
    ended_since: datetime | None = None

    @property
    def exact_path(self) -> str | None:
        """The whole path, if one is named."""
        return None if self.path is None or self.path.endswith("*") else self.path

    @property
    def path_prefix(self) -> str | None:
        """The text before the ``*``."""
        return self.path[:-1] if self.path is not None and self.path.endswith("*") else None


class ListedRun(msgspec.Struct, frozen=True):
    """A run in a list. ``error`` and ``parent_execution_id`` are only in the event log. ``schedule`` is the name of the
    schedule that has started the run.
    """

    execution_id: int
    workflow_id: str
    path: str
    version: str
    status: RunStatus
    started: datetime
    ended: datetime | None = None
    error: str | None = None
    parent_execution_id: int | None = None
    schedule: str | None = None


async def runs_in_log(dsn: str, run_filter: RunFilter) -> list[ListedRun]:
    """Return the runs in the event log, the latest first. Raises asyncpg's errors, OSError."""
    statuses = [status.upper() for status in run_filter.statuses] or None
    since, ended_since = _column_time(run_filter.since), _column_time(run_filter.ended_since)
    parameters = run_filter.exact_path, run_filter.path_prefix, statuses, since, run_filter.limit, ended_since

    async def fetch(connection: Connection) -> list[asyncpg.Record]:
        return await connection.fetch(sql.query("executions"), *parameters)

    return [_run_in_log(record) for record in await run_on_pool(dsn, fetch)]


def _column_time(time: datetime | None) -> datetime | None:
    """Return the time as it is in columns of type timestamp: in UTC, without a time zone."""
    return time and time.astimezone(UTC).replace(tzinfo=None)


def _run_in_log(record: asyncpg.Record) -> ListedRun:
    start_time, end_time = record["start_time"], record["end_time"]
    return ListedRun(
        execution_id=record["execution_id"],
        workflow_id=record["workflow_id"],
        path=record["path"],
        version=str(record["version"]),
        status=record["status"].lower(),
        started=start_time.replace(tzinfo=UTC),
        ended=end_time and end_time.replace(tzinfo=UTC),
        error=record["error"],
        parent_execution_id=record["parent_execution_id"],
        schedule=record["schedule"],
    )


async def runs_in_temporal(client: Client, run_filter: RunFilter) -> list[ListedRun]:
    """Return the runs in Temporal's list, the latest first. Raises RPCError."""
    latest: dict[str, WorkflowExecution] = {}
    async for workflow in client.list_workflows(_query(run_filter)):
        latest.setdefault(workflow.id, workflow)  # after a reset, a workflow has more than one
        if len(latest) == run_filter.limit:
            break
    runs = [_run_in_temporal(id_, execution) for id_, execution in await execution_ids(client, latest.values())]
    return sorted((run for run in runs if run), key=lambda run: (run.started, run.execution_id), reverse=True)


async def latest_run(client: Client) -> str | None:
    """Return the workflow id of the latest run in Temporal that no other run has called; None if there is none. Raises
    RPCError.

    Temporal lists open workflows first, so the first one may not be the latest: later ones are queried until there is
    none.
    """
    latest_id, latest_workflow_id = 0, None
    while True:
        query = f"{PLAYBOOKS} AND ParentWorkflowId IS NULL AND {EXECUTION_ID.name} > {latest_id}"
        later_runs = await execution_ids(client, [workflow async for workflow in client.list_workflows(query, limit=1)])
        if not later_runs:
            return latest_workflow_id
        [(latest_id, workflow)] = later_runs
        latest_workflow_id = workflow.id


def _query(run_filter: RunFilter) -> str:
    terms = [PLAYBOOKS]
    if run_filter.exact_path is not None:
        terms.append(f"{PATH.name} = {literal(run_filter.exact_path)}")
    if run_filter.path_prefix:
        terms.append(f"{PATH.name} STARTS_WITH {literal(run_filter.path_prefix)}")
    if run_filter.statuses:
        terms.append(f"({' OR '.join(map(_status_term, run_filter.statuses))})")
    if run_filter.since is not None:
        terms.append(f"StartTime >= '{run_filter.since.astimezone(UTC).isoformat()}'")
    if run_filter.ended_since is not None:
        terms.append(f"CloseTime >= '{run_filter.ended_since.astimezone(UTC).isoformat()}'")
    return " AND ".join(terms)


def _status_term(status: RunStatus) -> str:
    term = f"ExecutionStatus = {literal(_TO_TEMPORAL[status][1])}"
    if status == "paused":  # by a request, or in Temporal itself
        paused_in_temporal = f"{OPEN} AND (ExecutionStatus != 'Running' OR {PAUSED.name} IS NOT NULL)"
        return f"({term} AND {STATUS.name} = 'paused' OR {paused_in_temporal})"
    if status == "partial":
        return f"({term} AND {STATUS.name} = 'partial')"
    if status == "running":
        term += f" AND {PAUSED.name} IS NULL"
    refined = next((refined for refined, coarse in _REFINED.items() if coarse == status), None)
    return term if refined is None else f"({term} AND {STATUS.name} != {literal(refined)})"


def _run_in_temporal(execution_id: int, workflow: WorkflowExecution) -> ListedRun | None:
    """Return a run in Temporal's list; None if its status is unknown. The start of a submitted run is the time in its
    execution id, as the workflow may have continued as new.
    """
    status = _FROM_TEMPORAL.get(workflow.status) if workflow.status else None
    if status is None:
        return None
    submit_time = datetime.fromtimestamp(millisecond_of(execution_id) / 1000, UTC)
    start_time = submit_time if workflow.parent_id is None else workflow.start_time
    attributes = workflow.typed_search_attributes
    is_paused_in_temporal = is_paused(workflow.raw_info) or bool(attributes.get(PAUSED))
    if status == "running" and (attributes.get(STATUS) == "paused" or is_paused_in_temporal):
        status = "paused"
    if status == "completed" and attributes.get(STATUS) == "partial":
        status = "partial"
    path, version = attributes.get(PATH) or "", attributes.get(VERSION) or ""
    schedule = attributes.get(SCHEDULE)
    return ListedRun(
        execution_id, workflow.id, path, version, status, start_time, workflow.close_time, schedule=schedule
    )
