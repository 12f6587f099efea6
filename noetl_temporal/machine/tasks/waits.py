"""Creates the waits of a pipeline, ends them, and emits their events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

from msgspec.structs import replace

from noetl_compiler.graph import Json, Rule
from noetl_compiler.language.timestamps import format_timestamp, parse_timestamp
from noetl_compiler.templates import TemplateFailure
from noetl_temporal.machine import quantities
from noetl_temporal.machine.call import PlainOutcome
from noetl_temporal.machine.failures import error_outcome
from noetl_temporal.machine.ids import shorten_id
from noetl_temporal.machine.state import PipelineState
from noetl_temporal.machine.tasks.calls import call_id
from noetl_temporal.machine.tasks.host import Host
from noetl_temporal.machine.tasks.plan import TaskPlan
from noetl_temporal.machine.tasks.rendering import RenderedTask
from noetl_temporal.machine.waits.wait import Wait

__all__ = ["WaitEnd", "emit_wait_ended", "end_at_due_time", "failure_without_signal", "retry_wait", "task_wait"]

WaitEnd = Literal["done", "timed_out", "cancelled"]

_STATUSES: Mapping[WaitEnd, str] = {"done": "COMPLETED", "timed_out": "FAILED", "cancelled": "CANCELLED"}


def task_wait(host: Host, plan: TaskPlan, state: PipelineState, rendered: RenderedTask) -> Wait:
    """Begin the wait of a task of kind wait or approval, and log it. Raises TemplateFailure."""
    config, since = rendered.config, host.journal.feed.at
    wait = Wait(
        id=call_id(host, plan, state),
        kind=_kind_of(plan, config),
        run=host.run_id,
        step=host.step.name,
        task=plan.task.label,
        since=since,
        iteration=host.iteration,
        signal=str(config.get("signal") or ""),
        key=None if config.get("key") is None else str(config["key"]),
        message=str(config.get("message") or ""),
        form=config.get("form") or {},
        approvers=_approver_names(config.get("approvers")),
        schema=_schema(config),
    )
    wait = _with_timeout(replace(wait, due=_due(config, since, plan), succeeds_when_due=True), rendered.timeout)
    return _emit_started(host, plan, wait, state.progress.event_id)


def retry_wait(host: Host, plan: TaskPlan, state: PipelineState, rule: Rule, seconds: float | None) -> Wait:
    """Begin the wait of a failed call for the signal of its rule, and log it."""
    wait = Wait(
        id=shorten_id(f"{call_id(host, plan, state)}:retry"),
        kind="retry",
        run=host.run_id,
        step=host.step.name,
        task=plan.task.label,
        since=host.journal.feed.at,
        iteration=host.iteration,
        signal=rule.wait_for or "",
    )
    return _emit_started(host, plan, _with_timeout(wait, seconds), host.parent_id)


def end_at_due_time(wait: Wait) -> tuple[WaitEnd, PlainOutcome]:
    """Return how a wait ends at its due time, and the outcome of its task."""
    return ("done", {"status": "ok", "result": None}) if wait.succeeds_when_due else ("timed_out", _timed_out(wait))


def _timed_out(wait: Wait) -> PlainOutcome:
    subject = "no decision" if wait.kind == "approval" else f"no signal {wait.signal!r}"
    subject = subject if wait.kind != "time" else "the time was not reached"
    came = "" if wait.kind == "time" else " came"
    outcome = error_outcome("timeout", f"{subject}{came} within {wait.timeout:g} s")
    return {**outcome, "error": {**outcome["error"], "wait": wait.task}}


def failure_without_signal(outcome: PlainOutcome, timeout: PlainOutcome) -> PlainOutcome:
    """Return the failed ``outcome`` of a call with the message of ``timeout``, because its retry got no signal."""
    error: dict[str, Json] = outcome.get("error") or {}
    message = f"{error.get('message') or 'failed'}; {timeout['error']['message']}"
    return {**outcome, "status": "error", "error": {**error, "message": message}}


def emit_wait_ended(host: Host, wait: Wait, ending: WaitEnd, outcome: PlainOutcome | None) -> None:
    """Emit the end of a wait."""
    is_decision = wait.kind == "approval" and ending == "done"
    decision: dict[str, Json] = outcome["result"] if is_decision and outcome is not None else {}
    host.journal.emit(
        "approval.decided" if is_decision else f"wait.{ending}",
        wait.task,
        wait.kind,
        _STATUSES[ending],
        parent=wait.event_id,
        ends=wait.event_id,
        started=wait.since,
        error=str(outcome["error"]["message"]) if outcome is not None and outcome.get("error") else None,
        meta={**host.meta},
        wait_id=wait.id,
        approved=decision.get("approved"),
        by=decision.get("by"),
        reason=decision.get("reason") or None,
    )


def _emit_started(host: Host, plan: TaskPlan, wait: Wait, parent: int) -> Wait:
    event_id = host.journal.emit(
        "approval.requested" if wait.kind == "approval" else "wait.started",
        wait.task,
        wait.kind,
        "STARTED",
        parent=parent,
        span=plan.task.span,
        meta={**host.meta},
        wait_id=wait.id,
        signal=wait.signal or None,
        key=wait.key,
        due=format_timestamp(wait.due) if wait.due else None,
        message=wait.message or None,
        form=wait.form or None,
        approvers=list(wait.approvers) or None,
        schema=wait.schema or None,
    )
    return replace(wait, event_id=event_id)


def _kind_of(plan: TaskPlan, config: Mapping[str, Json]) -> Literal["time", "signal", "approval"]:
    if plan.task.kind == "approval":
        return "approval"
    return "signal" if config.get("signal") else "time"


def _schema(config: Mapping[str, Json]) -> dict[str, Json]:
    schema = config.get("schema")
    return cast("dict[str, Json]", schema) if isinstance(schema, dict) else {}


def _due(config: Mapping[str, Json], since: int, plan: TaskPlan) -> int:
    """Return when the wait ends on its own; 0 if only its timeout ends it. Raises TemplateFailure."""
    span = plan.task.span
    if plan.task.kind == "approval" or config.get("signal"):
        return 0
    if config.get("duration") is not None:
        return since + round(quantities.seconds(config["duration"], "duration", span) * 1000)
    until = parse_timestamp(config.get("until"))
    if until is None:
        raise TemplateFailure("until is not a time: expected ISO 8601 such as 2026-12-24T18:00:00+01:00", span)
    quantities.seconds(max(0, until - since) / 1000, "until", span)
    return max(until, since)


def _with_timeout(wait: Wait, seconds: float | None) -> Wait:
    """Return the wait with its timeout, if that is before its due time."""
    if seconds is None:
        return wait
    last = wait.since + round(seconds * 1000)
    if wait.due and wait.due <= last:
        return wait
    return replace(wait, due=last, succeeds_when_due=False, timeout=seconds)


def _approver_names(value: Json) -> tuple[str, ...]:
    if value is None:
        return ()
    return tuple(str(name) for name in (cast("list[Any]", value) if isinstance(value, list) else [value]))
