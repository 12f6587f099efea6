"""The state of an earlier run of the same graph, just before a step first started in it: a rerun continues from there
(semantics.md 43).

How it works. The recorded facts of the earlier run are fed to a new machine (earlier_run.py). Just before the step
first starts, its state has exactly the values that the templates of that step saw: results, ``ctx``, ``vars``, the
rendered workload, failures, and queued signals. ``state_before`` returns a state with these, and without the parts that
belong to the earlier run alone: ids, timers, requests. Its tokens are those of the step, those on their way to others,
and those that wait at joins.

A step that was running at that moment had no result yet, so what it had done would be lost: then ``reuse_refusal``
refuses the rerun. A step that had started at the same fact and had done nothing yet, as in a fan-out, starts again in
the rerun.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from msgspec.structs import replace

from noetl_compiler.graph import Graph, Json
from noetl_compiler.secret_references import MARK, format_reference, references_in
from noetl_temporal.machine.facts import RerunSource
from noetl_temporal.machine.records import StepRecord
from noetl_temporal.machine.state import PipelineState, PlaybookState, StepRun, restore_state, state_snapshot
from noetl_temporal.machine.steps.execution import Execution
from noetl_temporal.machine.stored import logged_result, with_row, without_row
from noetl_temporal.machine.tally import StepTally, TimeSpent
from noetl_temporal.machine.tasks.events import message_of

__all__ = ["emit_reused", "region_of", "reuse_refusal", "reuse_state", "state_before"]

_PAYLOAD = "payload"
"""The root of the request's values, which a rerun takes from its own request."""

_REUSED_FIELDS = (
    *("workload", "ctx", "vars", "stored_values", "unmeasured", "queued_signals"),
    *("records", "loop_tallies", "route_records", "run_counts", "arrivals", "waiting", "failures"),
    *("result_sizes", "has_stored", "stored_bytes"),
)
"""The fields of a PlaybookState that a rerun reuses."""


def region_of(graph: Graph, step: str) -> str | None:
    """Return the name of the loop over steps that contains the step; None if no loop does."""
    return next((each.name for each in graph.steps.values() if each.loop and step in each.loop.region), None)


def reuse_refusal(graph: Graph, state: PlaybookState, step: str) -> str | None:
    """Return why the ``state`` just before the start of ``step`` cannot be reused; None if it can."""
    if state.stop is not None:
        return f"the run was already stopping ({state.stop.kind}) when {step!r} started"
    for run in state.runs.values():
        if run.held is not None:
            return f"step {run.step!r} had failed and was held when {step!r} first started"
        if not _is_untouched(graph, state, run):
            return f"step {run.step!r} was still running when {step!r} first started, so it had no result to reuse"
    return None


def state_before(graph: Graph, state: PlaybookState, step: str) -> Json:
    """Return the state with which a rerun starts at ``step``, as plain JSON, if ``reuse_refusal`` returned None."""
    begun_steps = [run.step for run in state.runs.values()]
    counts = {name: count - begun_steps.count(name) for name, count in state.run_counts.items()}
    origins = (state.final_predecessors if step == graph.final else None) or [""]
    unmeasured = dict.fromkeys([*(name for name in state.being_stored if name), *state.unmeasured])
    earlier_state = PlaybookState(
        workload=state.workload,
        ctx=state.ctx,
        vars=state.vars,
        stored_values={root: references for root, references in state.stored_values.items() if root != _PAYLOAD},
        unmeasured=[name for name in unmeasured if not name.startswith((f"{_PAYLOAD}.", "workload."))],
        queued_signals=state.queued_signals,
        records={name: _as_reused(record) for name, record in state.records.items()},
        route_records={name: _as_reused(record) for name, record in state.route_records.items()},
        loop_tallies={name: StepTally(record.status, reused=True) for name, record in state.loop_tallies.items()},
        run_counts={name: count for name, count in counts.items() if count},
        arrivals=[*((name, "") for name in begun_steps), *((step, origin) for origin in origins), *state.arrivals],
        waiting=state.waiting,
        failures=state.failures,
        result_sizes=state.result_sizes,
        has_stored=state.has_stored,
        stored_bytes=state.stored_bytes,
    )
    return state_snapshot(earlier_state)


def reuse_state(state: PlaybookState, earlier: RerunSource, secrets_key: str) -> None:
    """Set the fields of ``state`` that a rerun reuses. ``secrets_key`` is the key of this run, empty if the graph has
    no secrets.
    """
    snapshot = _reseal(earlier.state, earlier.secrets_key, secrets_key) if secrets_key else earlier.state
    earlier_state = restore_state(cast("dict[str, Json]", snapshot), PlaybookState)
    for name in _REUSED_FIELDS:
        setattr(state, name, getattr(earlier_state, name))


def emit_reused(execution: Execution, earlier: RerunSource) -> None:
    """Emit an event for each step whose outcome was reused, in the playbook's order. The event has the result: the row
    that the record names is in the log of the earlier run.
    """
    records = {**execution.state.route_records, **execution.state.records}
    for name, step in execution.graph.steps.items():
        record = records.get(name)
        if record is None or step.is_synthetic:
            continue
        record.outcome = without_row(record.outcome)
        meta: dict[str, Json] = {"rerun_of": str(earlier.execution_id)}
        is_completed = record.status == "completed"
        row = execution.journal.emit(
            "step.reused",
            name,
            "step",
            record.status.upper(),
            parent=execution.state.workflow_id,
            result=logged_result(record.outcome, meta) if is_completed else None,
            error=message_of(record.outcome) if record.status == "failed" else None,
            span=step.span,
            meta=meta,
        )
        if is_completed:
            record.outcome = with_row(record.outcome, row)


def _is_untouched(graph: Graph, state: PlaybookState, run: StepRun) -> bool:
    """Whether a run has started but done nothing yet, so that it can start again in the rerun."""
    has_begun = run.pipeline not in (None, PipelineState()) or run.selection is not None or run.loop is not None
    return run.id in state.ready and not has_begun and not graph.steps[run.step].enter


def _as_reused(record: StepRecord) -> StepRecord:
    """Return the record as reused: without the counts and durations of the earlier run."""
    return replace(record, attempts=0, retries=0, iterations={}, spent=TimeSpent(), reused=True)


def _reseal(value: Any, old: str, new: str) -> Any:
    """Return the value with its references to secrets, sealed with the key ``old``, sealed with the key ``new``."""
    match value:
        case str() if MARK in value:
            return _with_references(value, old, new)
        case list():
            return [_reseal(item, old, new) for item in cast("list[Json]", value)]
        case dict():
            return {name: _reseal(item, old, new) for name, item in cast("Mapping[str, Json]", value).items()}
        case _:
            return value


def _with_references(text: str, old: str, new: str) -> str:
    parts, end = list[str](), 0
    for match in references_in(text, old):
        parts += [text[end : match.start], format_reference(match.reference, new)]
        end = match.end
    return "".join([*parts, text[end:]])
