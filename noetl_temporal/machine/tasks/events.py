"""Emits the events of a pipeline's tasks: each call begins and ends one task execution (semantics.md 18)."""

from __future__ import annotations

from typing import Any

from noetl_compiler.graph import Json
from noetl_temporal.machine.call import PlainOutcome
from noetl_temporal.machine.policy import Decision
from noetl_temporal.machine.state import PipelineState
from noetl_temporal.machine.stored import logged_result
from noetl_temporal.machine.tasks.failed_line import failure_span
from noetl_temporal.machine.tasks.host import Host
from noetl_temporal.machine.tasks.plan import TaskPlan

__all__ = ["emit_decided", "emit_ended", "emit_started", "message_of", "warn_of_result"]

_END_EVENTS = {"COMPLETED": "task.done", "CANCELLED": "task.cancelled", "FAILED": "task.failed"}


def emit_started(host: Host, state: PipelineState, plan: TaskPlan, call_id: str) -> int:
    """Emit the start of a task execution: of a task, or of another page of it. Returns the id of the event."""
    return host.journal.emit(
        "task.started",
        plan.task.label,
        plan.task.kind,
        "STARTED",
        parent=state.progress.done_id or host.parent_id,
        span=plan.task.span,
        meta=_meta(host, state, plan, call_id),
    )


def emit_decided(host: Host, state: PipelineState, plan: TaskPlan, decision: Decision) -> None:
    """Emit the decision of the task's policy, if the machine has made it, because no activity reported one."""
    host.journal.emit(
        "policy.task.evaluated",
        plan.task.label,
        plan.task.kind,
        "COMPLETED",
        parent=state.progress.event_id,
        rule=decision.rule,
        do=decision.do,
        delay=decision.delay or None,
        indeterminate=list(decision.indeterminate) or None,
        **host.meta,
    )


def emit_ended(
    host: Host,
    state: PipelineState,
    plan: TaskPlan,
    call_id: str,
    status: str,
    outcome: PlainOutcome,
    pages: Json = None,
) -> int:
    """Emit the end of a task execution: ``status`` is COMPLETED, FAILED or CANCELLED. ``pages`` is the summary of all
    pages, at the end of the last one. Returns the id of the event.
    """
    meta = _meta(host, state, plan, call_id)
    if pages is not None:
        meta["sequence"] = pages
    return host.journal.emit(
        _END_EVENTS[status],
        plan.task.label,
        plan.task.kind,
        status,
        parent=state.progress.done_id or state.progress.event_id,
        ends=state.progress.event_id,
        started=state.progress.started,
        result=logged_result(outcome, meta) if status == "COMPLETED" else None,
        error=message_of(outcome),
        span=failure_span(plan.task, outcome, state.progress.config) if status == "FAILED" else None,
        meta=meta,
    )


def warn_of_result(host: Host, plan: TaskPlan, outcome: PlainOutcome) -> None:
    """Record the warnings of the tool about values that it changed."""
    warning = outcome["meta"].get("warning")
    if isinstance(warning, str):
        host.warn(f"{plan.task.label}: {warning}", plan.task.span)


def _meta(host: Host, state: PipelineState, plan: TaskPlan, call_id: str) -> dict[str, Any]:
    meta = {**host.meta, "task_run_id": call_id}
    if plan.paginates:
        meta["page"] = state.progress.page
    return meta


def message_of(outcome: PlainOutcome) -> str | None:
    """Return the error message of an outcome; None if there is none."""
    error = outcome.get("error")
    return str(error.get("message")) if error else None
