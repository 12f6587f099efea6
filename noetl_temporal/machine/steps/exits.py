"""The end of a step run: its result and ``set``, its record, its event."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from noetl_compiler import templates
from noetl_compiler.graph import Json, Step
from noetl_compiler.language.words import RUN_RESULTS
from noetl_temporal.machine.call import PlainOutcome
from noetl_temporal.machine.failures import error_outcome, template_outcome
from noetl_temporal.machine.names import record_view
from noetl_temporal.machine.quantities import word
from noetl_temporal.machine.records import StepRecord
from noetl_temporal.machine.scope import call_names
from noetl_temporal.machine.state import StepRun
from noetl_temporal.machine.steps.entry import emit_started
from noetl_temporal.machine.steps.execution import Execution
from noetl_temporal.machine.steps.routes import OK, ChosenRoutes, StepExit, choose_routes, follow_routes
from noetl_temporal.machine.stored import combined_results, logged_result, with_result
from noetl_temporal.machine.tally import TimeSpent, add_counts
from noetl_temporal.machine.tasks.events import message_of
from noetl_temporal.machine.tasks.task_executions import End

__all__ = ["complete_run", "end_run", "end_run_for_retry", "skip", "with_timeout"]

_STATUSES = {"ok": "completed", "error": "failed", "cancelled": "cancelled"}
_END_EVENTS = {"completed": "step.done", "failed": "step.failed", "cancelled": "step.cancelled"}
_BEFORE_FIRST_RUN = StepRecord("running")
"""The record of a step before its first run. It is never changed."""


def skip(execution: Execution, step: Step, run: StepRun) -> StepExit:
    """End the run of a step that was not admitted as skipped. If its routes cannot be evaluated, the run fails."""
    end = End("ok", OK, None, step.span)
    execution.state.records[step.name] = StepRecord("skipped")
    routes = choose_routes(execution, step, run, "skipped", end)
    if routes is not None and routes.evaluation_failure is not None:
        run.event_id = emit_started(execution, step, run)
        return _emit_and_route(execution, step, run, end, "", routes)
    execution.journal.emit(
        "step.skipped", step.name, "step", "SKIPPED", parent=execution.state.workflow_id, span=step.span
    )
    return follow_routes(execution, step, run, "skipped", end, routes)


def end_run(execution: Execution, step: Step, run: StepRun, end: End, kind: str = "") -> StepExit:
    """Record the end of a run, choose its routes, and emit its events. ``kind`` is that of its result.

    Routes are chosen before the end is emitted: if they cannot be evaluated, the run fails.
    """
    _record(execution, step, run, end, kind, _STATUSES[end.status])
    routes = choose_routes(execution, step, run, _STATUSES[end.status], end, kind)
    del execution.state.runs[run.id]
    return _emit_and_route(execution, step, run, end, kind, routes)


def end_run_for_retry(execution: Execution, step: Step, run: StepRun, end: End, kind: str) -> None:
    """End a failed run that a retry repeats: it follows no route. The retry of a loop over a list counts all its items,
    so the failed run does not.
    """
    record = _record(execution, step, run, end, kind, "failed")
    if run.earlier_record is not None and run.keeps_items:
        record.iterations = run.earlier_record.iterations
    del execution.state.runs[run.id]
    _emit_end(execution, step, run, end, "failed")


def _emit_and_route(
    execution: Execution, step: Step, run: StepRun, end: End, kind: str, routes: ChosenRoutes | None
) -> StepExit:
    if routes is not None and routes.evaluation_failure is not None and end.status == "ok":
        end = replace(routes.evaluation_failure, outcome={**end.outcome, **routes.evaluation_failure.outcome})
        routes = replace(routes, evaluation_failure=end)
        _record(execution, step, run, end, kind, "failed")
    status = _STATUSES[end.status]
    _emit_end(execution, step, run, end, status)
    return follow_routes(execution, step, run, status, end, routes)


def with_timeout(step: Step, run: StepRun, end: End) -> End:
    """Return the end; if the run has timed out, a failure instead, even if its last call succeeded."""
    if run.stop != "timeout":
        return end
    timeout = error_outcome("timeout", f"step {step.name!r} timed out after {run.timeout_seconds:g} s")
    return End("error", {**end.outcome, **timeout}, None, step.span)


def complete_run(execution: Execution, step: Step, run: StepRun, end: End, kind: str) -> End:
    """Apply the ``result``, ``set`` and ``status`` of the step, and return the end with its result. The end is a
    failure if a template cannot be evaluated, if the step has timed out, or if it ends a loop that has failed.
    """
    end = with_timeout(step, run, end)
    end = _with_step_result(execution, step, run, end, kind) if end.status == "ok" else end
    return _with_loop_failure(execution, step, end) if end.status == "ok" else end


def _with_step_result(execution: Execution, step: Step, run: StepRun, end: End, kind: str) -> End:
    if step.result is None and not step.set and not step.status:
        return end
    host, profile = execution.host(step, run), execution.graph.names.outcome
    view = record_view(_record(execution, step, run, end, kind, "completed"))
    final: PlainOutcome = {**end.outcome, "page": None}
    names = {
        **call_names(profile, step.name, kind, end.outcome, end.attempt, end.page, host.scope),
        "result": call_names(profile, step.name, kind, final)["result"],
        step.name: view,
        "_prev": view,
    }
    try:
        if step.result is not None:
            end = replace(end, outcome=with_result(end.outcome, templates.render(step.result, host.scope(names))))
            execution.state.records[step.name].outcome = end.outcome
        scope = host.scope(names)
        host.assign([(assign.target, templates.render(assign.value, scope)) for assign in step.set])
        if step.status and execution.state.stop is None:
            status = templates.render(step.status.value, host.scope(names))
            execution.state.final_status = word(status, "status", RUN_RESULTS, step.status.span)
    except templates.TemplateFailure as failure:
        return End("error", template_outcome(failure), None, failure.span or step.span)
    return end


def _with_loop_failure(execution: Execution, step: Step, end: End) -> End:
    """Return the end of a step; a step that ends a failed loop over steps fails with the error of that loop."""
    loop = execution.state.records.get(execution.plan.loops_by_end.get(step.name, ""))
    if loop is None or loop.status != "failed":
        return end
    return replace(end, status="error", outcome={**end.outcome, "status": "error", "error": loop.outcome["error"]})


def _record(execution: Execution, step: Step, run: StepRun, end: End, kind: str, status: Any) -> StepRecord:
    """Record a run. Attempts, iterations and durations are summed over the runs of a step; the rest is replaced."""
    records, pipeline = execution.state.records, run.pipeline
    if run.earlier_record is None:
        run.earlier_record = records.get(step.name) or _BEFORE_FIRST_RUN
    before = run.earlier_record
    record = records[step.name] = StepRecord(
        status,
        kind,
        end.outcome,
        pipeline.records if pipeline else {},
        before.attempts + (pipeline.attempts if pipeline else run.loop_attempts),
        before.retries + (pipeline.retries if pipeline else run.loop_retries),
        add_counts(before.iterations, run.loop_stats) if run.loop_stats else before.iterations,
        before.spent.plus(TimeSpent.of_run(run.started, execution.journal.feed.at)),
        before.failures,
    )
    return record


def _emit_end(execution: Execution, step: Step, run: StepRun, end: End, status: str) -> None:
    meta: dict[str, Json] = {"step_run_id": run.id}
    if step.is_synthetic:
        meta["synthetic"] = True
    if status == "failed" and end.task is not None:
        meta["task"] = end.task
    data_type = _type_of(end.outcome) if status == "completed" else None
    if data_type is not None:
        meta["data_type"] = data_type
    execution.journal.emit(
        _END_EVENTS[status],
        step.name,
        "step",
        status.upper(),
        parent=run.event_id,
        ends=run.event_id,
        started=run.started,
        result=_result_to_log(execution, step, end, meta) if status == "completed" else None,
        error=message_of(end.outcome),
        span=end.span if status == "failed" else None,
        meta=meta,
    )


def _result_to_log(execution: Execution, step: Step, end: End, meta: dict[str, Json]) -> Json:
    """Return the result for an event with this ``meta``; a summary of all steps for an end step that the compiler
    added.
    """
    if step.name != execution.graph.final or not step.is_synthetic:
        return logged_result(end.outcome, meta)
    records = {name: record for name, record in execution.state.records.items() if name != step.name}
    completed = {name: record.outcome for name, record in records.items() if record.status == "completed"}
    results, left_out = combined_results(completed)
    if left_out:
        meta["left_out"] = {"results": left_out}
    failed = [name for name, record in records.items() if record.status == "failed"]
    return {"status": "aggregated", "results": results, "failed_steps": failed}


def _type_of(outcome: PlainOutcome) -> str | None:
    """Return the name of the result's Python type, since the log may lack the result itself; None without a result."""
    result = outcome.get("result")
    return None if result is None else type(result).__name__
