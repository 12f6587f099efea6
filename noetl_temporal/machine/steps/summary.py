"""The result of an execution and the summary of its steps."""

from __future__ import annotations

from noetl_compiler.graph import Json
from noetl_temporal.machine.call import PlainOutcome
from noetl_temporal.machine.names import LOOP_KIND
from noetl_temporal.machine.records import StepRecord
from noetl_temporal.machine.steps.execution import Execution
from noetl_temporal.machine.stored import loaded_result, reference_in, with_result
from noetl_temporal.machine.tally import StepTally, add_tallies

__all__ = ["result_of", "summary_of", "tally_of"]


def result_of(execution: Execution) -> PlainOutcome:
    """Return the first of these that exists, as an outcome with nothing but a result:

    1. the result of the step that the caller requested, unless that is the final step;
    2. the result of the final step;
    3. the result of the step that led to the final step, or the results by name of several such steps.
    """
    records = execution.state.records
    requested_record = records.get(execution.state.return_step)
    if requested_record is not None and execution.state.return_step != execution.graph.final:
        return _load_result(requested_record)
    final = records.get(execution.graph.final)
    result = {} if final is None else _result_of(final)
    if result.get("result") is not None:
        return result
    predecessors = dict.fromkeys(_skip_router(execution, name) for name in execution.state.final_predecessors)
    results = {name: _result_of(records[name]) for name in predecessors if name in records}
    if len(results) == 1:
        return next(iter(results.values()))
    return {"result": {name: outcome.get("result") for name, outcome in results.items()} or None}


def _skip_router(execution: Execution, name: str) -> str:
    """Return the step, or its predecessor if it is a router: a synthetic step without a result."""
    steps = execution.graph.steps
    if not steps[name].is_synthetic:
        return name
    return next((step.name for step in steps.values() if any(arc.target == name for arc in step.route.arcs)), name)


def _result_of(record: StepRecord) -> PlainOutcome:
    """Return the result of a step. The response of a failed call is not a result."""
    error: dict[str, Json] = record.outcome.get("error") or {}
    return {} if record.status == "failed" and error.get("status") is not None else _load_result(record)


def _load_result(record: StepRecord) -> PlainOutcome:
    """Return the result of a step, loaded, and the row of the log that has it: of stored results of a loop, the row has
    only the size. Raises NotLoaded, TemplateFailure.
    """
    outcome = record.outcome
    loaded = with_result({}, loaded_result(outcome))
    has_row = "row" in outcome and not (record.kind == LOOP_KIND and reference_in(outcome) is not None)
    return {**loaded, "row": outcome["row"]} if has_row else loaded


def summary_of(execution: Execution) -> dict[str, dict[str, Json]]:
    """Return name -> {status, reused?, attempts, retries, iterations?, duration_seconds}, in the order of the playbook.
    A step inside a loop over steps has the most severe status of its runs, and the sums of their numbers.
    """
    records = {name: tally_of(record) for name, record in execution.state.records.items()}
    tallies = add_tallies(execution.state.loop_tallies, records)
    steps = execution.graph.steps
    return {name: _summary_of(tallies[name]) for name in steps if name in tallies and not steps[name].is_synthetic}


def _summary_of(tally: StepTally) -> dict[str, Json]:
    summary: dict[str, Json] = {"status": tally.status}
    if tally.reused:
        summary["reused"] = True
    summary["attempts"], summary["retries"] = tally.attempts, tally.retries
    if tally.iterations:
        summary["iterations"] = dict(tally.iterations)
    summary["duration_seconds"] = tally.spent.seconds
    return summary


def tally_of(record: StepRecord) -> StepTally:
    """Return the tally of the last run of a step."""
    return StepTally(record.status, record.attempts, record.retries, record.iterations, record.spent, record.reused)
