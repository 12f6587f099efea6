"""Describes the state or the outcome of a run, from Temporal and the event log."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from temporalio.client import WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from noetl_compiler.graph import Json
from noetl_temporal.cli.called_waits import CalledWaits, query_open_waits, read_called_waits
from noetl_temporal.cli.event_log import EventLog
from noetl_temporal.cli.log_summary import read_log_summary
from noetl_temporal.cli.open_waits import open_wait
from noetl_temporal.cli.run_problems import RunProblem, read_run_problems
from noetl_temporal.cli.run_report import RunSummary
from noetl_temporal.cli.suspensions import reported_suspensions
from noetl_temporal.control.paused_workflows import is_paused
from noetl_temporal.deployment import DeploymentError
from noetl_temporal.event_ids import millisecond_of
from noetl_temporal.messages.control_requests import OpenWaits
from noetl_temporal.messages.run_input import RunReport
from noetl_temporal.mirror.read import StepSummary, steps_of
from noetl_temporal.runs import RunHandle, Runs
from noetl_temporal.search_attributes import PATH

__all__ = ["describe_run", "steps_from_log"]

_QUERY_TIMEOUT = datetime.timedelta(seconds=5)
"""Timeout of queries. Without workers a run does not respond; then its steps are read from the event log."""


async def describe_run(runs: Runs, handle: RunHandle, log: EventLog | None, ui_url: str | None) -> RunSummary:
    """Describe a run. If it is running, the summary has the steps started so far and no result.

    Raises RPCError.
    """
    description = await handle.workflow.describe()
    is_running = description.status is WorkflowExecutionStatus.RUNNING
    report = RunReport("running", handle.execution_id) if is_running else await handle.result()
    is_cancelling = is_running and description.raw_description.workflow_extended_info.cancel_requested
    problems: list[RunProblem] = []
    if is_running:
        problems = await read_run_problems(runs.temporal, handle.workflow_id, handle.execution_id)
    log_summary = await read_log_summary(log, description.namespace, handle, description.run_id)
    start_time = await _start_time(runs, handle, description)
    has_worker = is_running and all(problem.kind == "paused_call" for problem in problems)
    open_waits = await query_open_waits(handle) if has_worker else OpenWaits([])
    suspensions = tuple(reported_suspensions(handle.execution_id, open_waits))
    called_waits = await read_called_waits(log, runs, handle.execution_id) if has_worker else CalledWaits([], [])
    steps = report.steps or await _step_statuses(log, handle, report.status, has_worker=has_worker)
    end = description.close_time or datetime.datetime.now(datetime.UTC)
    summary = RunSummary(
        execution_id=handle.execution_id,
        workflow_id=handle.workflow_id,
        run_id=description.run_id,
        path=description.typed_search_attributes.get(PATH) or "",
        status="paused" if suspensions or _is_paused_in_temporal(description, problems) else report.status,
        result=report.result,
        steps=_with_waits(steps, open_waits),
        failures=report.failures,
        rerun_of=str(report.rerun_of or ""),
        rerun_from=report.rerun_from,
        reason=await _cancel_reason(handle) if is_cancelling and has_worker else "",
        duration_seconds=round((end - start_time).total_seconds(), 3),
        ui_url=_ui_page(ui_url, description.namespace, handle.workflow_id, description.run_id),
        problems=tuple(problems),
        cancelling=is_cancelling,
        waits=(*(open_wait(handle.execution_id, wait) for wait in open_waits.waits), *called_waits.waits),
        suspensions=(*suspensions, *called_waits.suspensions),
        held=open_waits.held_count,
    )
    return log_summary.add_to(summary)


def _is_paused_in_temporal(description: WorkflowExecutionDescription, problems: Iterable[RunProblem]) -> bool:
    """Whether the workflow or a call of it was paused with Temporal's UI or command."""
    is_call_paused = any(problem.kind == "paused_call" for problem in problems)
    return is_call_paused or is_paused(description.raw_description.workflow_execution_info)


def _with_waits(steps: dict[str, dict[str, Json]], open_waits: OpenWaits) -> dict[str, dict[str, Json]]:
    """Return the steps; those that wait for a time, a signal or a person have the status "waiting"."""
    waiting = {wait.step for wait in open_waits.waits}
    return {
        name: {**step, "status": "waiting"} if name in waiting and step["status"] == "running" else step
        for name, step in steps.items()
    }


async def _cancel_reason(handle: RunHandle) -> str:
    """Return the reason why a run is being cancelled; the event log has it only at the end."""
    try:
        state: dict[str, Any] = await handle.workflow.query("state", rpc_timeout=_QUERY_TIMEOUT)
    except RPCError:
        return ""  # no worker responds
    stop: dict[str, Any] = state.get("stop") or {}
    return str(stop.get("reason", ""))


async def _start_time(runs: Runs, handle: RunHandle, description: WorkflowExecutionDescription) -> datetime.datetime:
    """Return the start of the first run in the chain of continued runs."""
    first_run = description.raw_description.workflow_execution_info.first_run_id
    if first_run in ("", description.run_id):
        return description.start_time
    try:
        workflow = runs.temporal.get_workflow_handle(handle.workflow_id, run_id=first_run)
        return (await workflow.describe()).start_time
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        # Temporal has removed the first run. The execution id contains the time of submission, but called runs have
        # none.
        if description.parent_id is not None:
            return description.start_time
        return datetime.datetime.fromtimestamp(millisecond_of(handle.execution_id) / 1000, datetime.UTC)


async def _step_statuses(
    log: EventLog | None, handle: RunHandle, status: str, *, has_worker: bool
) -> dict[str, dict[str, Json]]:
    """Return the steps of a run that has no report yet: counts from the event log, statuses from the workflow.

    The workflow does not know the steps inside its loops until their chunks have ended.
    """
    counted_steps = await _counted_steps(log, handle, status)
    if not has_worker:
        return counted_steps
    try:
        progress = await handle.progress(_QUERY_TIMEOUT)
    except RPCError:
        return counted_steps  # no worker responds
    return {name: {**counted_steps.get(name, {}), **progress.get(name, {})} for name in {**counted_steps, **progress}}


async def _counted_steps(log: EventLog | None, handle: RunHandle, status: str) -> dict[str, dict[str, Json]]:
    if log is None:
        return {}
    try:
        async with log.connection() as connection:
            return steps_from_log(await steps_of(connection, handle.execution_id), status)
    except DeploymentError:
        return {}  # the event log cannot be read: show what Temporal has


def steps_from_log(steps: list[StepSummary], status: str) -> dict[str, dict[str, Json]]:
    """Return the steps as in a report: name -> {status, reused?, attempts, retries, iterations?, duration_seconds}.

    A step that was active when the run ended is cancelled, even if its row is not written yet.
    """
    statuses: dict[str, dict[str, Json]] = {}
    has_ended = status not in ("running", "paused")
    for step in steps:
        active = "waiting" if step.is_waiting else "running"
        open_statuses = {"STARTED": active, "PAUSED": "held"}
        step_status = open_statuses.get(step.status, step.status.lower())
        if has_ended and step.status in open_statuses:
            step_status = "cancelled"
        counts: dict[str, Json] = {"attempts": step.attempts, "retries": step.retries, **_iterations(step)}
        reused: dict[str, Json] = {"reused": True} if step.reused else {}
        statuses[step.step] = {"status": step_status, **reused, **counts, "duration_seconds": step.duration_seconds}
    return statuses


def _iterations(step: StepSummary) -> dict[str, Json]:
    total = step.iterations_total
    if total is None:
        return {}
    ended, failed = step.iterations_ended, step.iterations_failed
    return {"iterations": {"total": total, "success": ended - failed, "failed": failed, "skipped": total - ended}}


def _ui_page(ui_url: str | None, namespace: str, workflow_id: str, run_id: str) -> str | None:
    if ui_url is None:
        return None
    return f"{ui_url}/namespaces/{namespace}/workflows/{quote(workflow_id, safe='')}/{run_id}/timeline"
