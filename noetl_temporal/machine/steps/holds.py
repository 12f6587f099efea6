"""Failed step runs that wait for a person (semantics.md 42): their events and results.

The run remains one of the runs of its playbook until it is retried, skipped or timed out, or the playbook stops.
"""

from __future__ import annotations

from msgspec.structs import replace

from noetl_compiler import templates
from noetl_compiler.graph import Json, Step
from noetl_compiler.language.defaults import HOLD_SECONDS
from noetl_compiler.language.timestamps import format_timestamp
from noetl_temporal.machine.call import PlainOutcome
from noetl_temporal.machine.failure_log import FailureLog
from noetl_temporal.machine.names import LOOP_KIND
from noetl_temporal.machine.state import Held, StepRun
from noetl_temporal.machine.steps.execution import Execution
from noetl_temporal.machine.steps.exits import complete_run
from noetl_temporal.machine.steps.routes import record_failure
from noetl_temporal.machine.tasks.events import message_of
from noetl_temporal.machine.tasks.rendering import seconds_of
from noetl_temporal.machine.tasks.task_executions import End
from noetl_temporal.machine.waits.wait import Wait

__all__ = [
    "begin_hold",
    "end_hold",
    "end_with_provided_result",
    "hold_id",
    "mark_failures_handled",
    "wait_for_decision",
]


def hold_id(run: StepRun) -> str:
    """Return the id of a hold as a wait, and of the timer that ends it."""
    return f"{run.id}:hold"


def begin_hold(execution: Execution, step: Step, run: StepRun, end: End, kind: str) -> tuple[Held, float]:
    """Record the failure of the run as held, and emit ``step.held``. Returns the record, and the maximum duration of
    the hold in seconds.
    """
    seconds = _hold_seconds(execution, step, run)
    at = execution.journal.feed.at
    due = at + round(seconds * 1000)
    run.held = held = Held(end.outcome, end.span, at, due, end.task, kind, end.attempt, end.page)
    execution.journal.emit(
        "step.held",
        step.name,
        "step",
        "PAUSED",
        parent=run.event_id,
        error=message_of(end.outcome),
        span=end.span,
        step_run_id=run.id,
        task=end.task,
        due=format_timestamp(held.due),
    )
    return held, seconds


def wait_for_decision(execution: Execution, run: StepRun, held: Held) -> Wait:
    """Return the wait of a held run for a person."""
    return Wait(
        id=hold_id(run),
        kind="held",
        run=run.id,
        step=run.step,
        task="",
        since=held.since,
        due=held.due,
        iteration=None if execution.iteration_host is None else execution.iteration_host.iteration,
        message=message_of(held.outcome) or "failed",
        event_id=run.event_id,
    )


def _hold_seconds(execution: Execution, step: Step, run: StepRun) -> float:
    """Return the maximum duration of the hold; HOLD_SECONDS if its template cannot be evaluated."""
    if step.hold is None:
        return HOLD_SECONDS
    host = execution.host(step, run)
    try:
        return seconds_of(step.hold.seconds, host.scope(), "for") or HOLD_SECONDS
    except templates.TemplateFailure as failure:
        host.warn(failure.message, failure.span or step.hold.span)
        return HOLD_SECONDS


def end_hold(
    execution: Execution, step: Step, run: StepRun, held: Held, action: str, by: str = "", reason: str = ""
) -> End:
    """End the hold, emit ``step.released`` with the ``action`` that ended it, and return the failure of the run."""
    execution.journal.emit(
        "step.released",
        step.name,
        "step",
        "COMPLETED",
        parent=run.event_id,
        action=action,
        by=by or None,
        reason=reason or None,
        step_run_id=run.id,
    )
    run.held, run.stop = None, ""
    return End("error", held.outcome, held.task, held.span, None, held.attempt, held.page)


def mark_failures_handled(execution: Execution, step: Step, run: StepRun, end: End) -> None:
    """Mark the failures of the run as handled, by a person."""
    record_failure(execution, step, run, end, handled=True)
    if run.loop is not None:
        run.loop.failures = FailureLog()


def end_with_provided_result(execution: Execution, step: Step, run: StepRun, held: Held, data: Json) -> End:
    """Return the end of a run whose result a person provides; the ``set`` of the step sees that result."""
    outcome: PlainOutcome = {"status": "ok", "result": data}
    if held.kind == LOOP_KIND and "meta" in held.outcome:
        outcome = {**outcome, "meta": held.outcome["meta"]}
    return complete_run(execution, replace(step, result=None), run, End("ok", outcome, None, step.span), held.kind)
