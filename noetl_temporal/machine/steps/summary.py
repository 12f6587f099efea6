"""The result of an execution and the summary of its steps."""

from __future__ import annotations

from noetl_compiler.graph import Json
from noetl_temporal.machine.call import PlainOutcome
from noetl_temporal.machine.names import LOOP
from noetl_temporal.machine.records import StepRecord
from noetl_temporal.machine.steps.execution import Execution
from noetl_temporal.machine.stored import stored_in, whole_result, with_result
from noetl_temporal.machine.tally import StepTally, add_tallies

__all__ = ["result_of", "summary_of", "tally_of"]


def result_of(execution: Execution) -> PlainOutcome:
    """Return the result of the step that the caller requested; else that of the final step; if that has none, the
    result of the step that led to it, or of several such steps by name. It is an outcome with nothing but a result.
    """
    records = execution.state.records
    requested = records.get(execution.state.return_step)
    if requested is not None and execution.state.return_step != execution.graph.final:
        return _loaded(requested)
    final = records.get(execution.graph.final)
    result = {} if final is None else _result_of(final)
    if result.get("result") is not None:
        return result
    leads = dict.fromkeys(_without_router(execution, name) for name in execution.state.leads)
    found = {name: _result_of(records[name]) for name in leads if name in records}
    if len(found) == 1:
        return next(iter(found.values()))
    return {"result": {name: one.get("result") for name, one in found.items()} or None}


def _without_router(execution: Execution, name: str) -> str:
    """Return the step itself, or that which leads to it if it only routes to several steps and has no result."""
    steps = execution.graph.steps
    if not steps[name].is_synthetic:
        return name
    return next((one.name for one in steps.values() if any(arc.to == name for arc in one.route.arcs)), name)


def _result_of(record: StepRecord) -> PlainOutcome:
    """Return the result of a step. The response of a failed call is not a result."""
    error: dict[str, Json] = record.outcome.get("error") or {}
    return {} if record.status == "failed" and error.get("status") is not None else _loaded(record)


def _loaded(record: StepRecord) -> PlainOutcome:
    """Return the result of a step, loaded, and the row of the log that has it: of stored results of a loop, the row has
    only the size. Raises NotLoaded, TemplateFailure.
    """
    outcome = record.outcome
    loaded = with_result({}, whole_result(outcome))
    has_row = "row" in outcome and not (record.kind == LOOP and stored_in(outcome) is not None)
    return {**loaded, "row": outcome["row"]} if has_row else loaded


def summary_of(execution: Execution) -> dict[str, dict[str, Json]]:
    """name -> {status, reused?, attempts, retries, iterations?, duration_seconds}, in the order of the playbook; for
    steps inside loops over steps, the most severe status, and sums.
    """
    found = add_tallies(execution.state.inside, {name: tally_of(one) for name, one in execution.state.records.items()})
    return {
        name: {
            "status": found[name].status,
            **({"reused": True} if found[name].reused else {}),
            "attempts": found[name].attempts,
            "retries": found[name].retries,
            **({"iterations": dict(found[name].iterations)} if found[name].iterations else {}),
            "duration_seconds": found[name].spent.seconds,
        }
        for name in execution.graph.steps
        if name in found and not execution.graph.steps[name].is_synthetic
    }


def tally_of(record: StepRecord) -> StepTally:
    """Return the summary of a step."""
    return StepTally(record.status, record.attempts, record.retries, record.iterations, record.spent, record.reused)
