"""The end of a playbook's run: its status, its last events, and the Finish command."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from noetl_compiler import templates
from noetl_compiler.graph import Json, Span
from noetl_compiler.language.words import RunResult
from noetl_temporal.machine.call import PlainOutcome
from noetl_temporal.machine.commands import Finish
from noetl_temporal.machine.failures import error_outcome, failure_at
from noetl_temporal.machine.steps.execution import Execution
from noetl_temporal.machine.steps.routes import add_deferred_failures
from noetl_temporal.machine.steps.summary import result_of, summary_of
from noetl_temporal.machine.stored import NotLoaded, logged_result

__all__ = ["finish"]

Status: TypeAlias = RunResult | Literal["cancelled"]


def finish(execution: Execution, limit: int) -> Finish:
    """Emit the last events of the run, and return its Finish command. ``limit`` is the maximum size of the result in
    bytes: a larger result fails the run, and so does one that cannot be read. Raises NotLoaded.
    """
    state = execution.state
    add_deferred_failures(execution)
    outcome, refusal = _result(execution, limit)
    if refusal is not None:
        _fail(execution, "too_large", refusal, execution.graph.steps[execution.graph.final].span)
        state.final_status = None
    is_refused = refusal is not None
    status, summaries = _status(execution), summary_of(execution)
    if state.playbook_id:
        _emit_end(execution, status, outcome, summaries, is_refused)
    return Finish(
        status,
        result=outcome.get("result"),
        failures=state.failures,
        steps=summaries,
        started=state.started,
    )


def _result(execution: Execution, limit: int) -> tuple[PlainOutcome, str | None]:
    """Return the outcome of the run and None; or an empty outcome and why the result is refused. A stopped run does not
    wait for stored values, and has no result then.
    """
    try:
        outcome = result_of(execution)
    except templates.TemplateFailure as failure:
        return {}, failure.message
    except NotLoaded:
        if execution.state.stop is None:
            raise
        return {}, None
    if len(msgspec.json.encode(outcome.get("result"))) > limit:
        return {}, f"the result has over {limit:,} bytes: store it in a sink, or set NOETL_POSTGRES"
    return outcome, None


def _status(execution: Execution) -> Status:
    """Return the status of the stop, else that of the final step. A run with status failed has a failure."""
    state, status_rule = execution.state, execution.graph.steps[execution.graph.final].status
    if state.stop is not None and state.stop.kind == "cancel":
        return "cancelled"
    if state.stop is None and state.final_status is not None and status_rule:
        if state.final_status == "failed" and not state.failures.unhandled:
            _fail(execution, "policy", "the status that the final step gives is failed", status_rule.span)
        return state.final_status
    return "failed" if state.failures.unhandled else "completed"


def _fail(execution: Execution, kind: str, message: str, span: Span) -> None:
    state, graph = execution.state, execution.graph
    failure = failure_at(graph.source, graph.final, error_outcome(kind, message), span)
    state.failures = state.failures.with_failure(failure)


def _reason_of_end(execution: Execution, status: Status) -> str | None:
    """Return why the run did not complete: the reason of the cancel request, or else the first unhandled failure."""
    state = execution.state
    if status == "cancelled" and state.stop is not None:
        return state.stop.reason or None
    cause = state.failures.cause
    return cause.message if cause is not None and status != "completed" else None


def _emit_end(
    execution: Execution,
    status: Status,
    outcome: PlainOutcome,
    summaries: Mapping[str, Mapping[str, Json]],
    is_refused: bool,
) -> None:
    state, emit = execution.state, execution.journal.emit
    failed_in_loops = [name for name, entry in state.loop_tallies.items() if entry.status == "failed"]
    failed_outside = [name for name, record in state.records.items() if record.status == "failed"]
    failed = list(dict.fromkeys([*failed_in_loops, *failed_outside]))
    meta: dict[str, Any] = {
        "evaluated_by_end_step": execution.graph.final in state.records,
        "total_steps": sum(1 for entry in summaries.values() if entry["status"] != "skipped" and "reused" not in entry),
        "failed_steps_count": len(failed),
        "failed_steps": failed or None,
        "failures": msgspec.to_builtins(list(state.failures.counts)) or None,
        "stopped_by": state.stop.kind if state.stop else None,
        "result_refused": is_refused or None,
        "final_status": state.final_status,
        "reason": state.stop.reason or None if state.stop else None,
    }
    result_to_log = logged_result(outcome, meta)
    error = _reason_of_end(execution, status)
    end = "completed" if status == "partial" else status
    for type_, node, kind, start_id in (
        ("workflow.finished", "workflow", "workflow", state.workflow_id),
        (f"playbook.{end}", execution.graph.source.path, "playbook", state.playbook_id),
    ):
        if start_id:
            emit(
                type_,
                node,
                kind,
                status.upper(),
                parent=start_id,
                ends=start_id,
                started=state.started,
                result=result_to_log,
                error=error,
                **meta,
            )
