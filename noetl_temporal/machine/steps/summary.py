"""What came of an execution's steps."""

from __future__ import annotations

from noetl_compiler.graph import Json
from noetl_temporal.machine.state import StepRecord
from noetl_temporal.machine.steps.execution import Execution
from noetl_temporal.machine.stored import whole_result

__all__ = ["result_of", "summary_of"]


def result_of(execution: Execution) -> Json:
    """The result of the step that the caller asks for; else the final step's; where it has none, the result of the step
    that led to it, or of each by name.
    """
    records = execution.state.records
    asked = records.get(execution.state.return_step)
    if asked is not None and execution.state.return_step != execution.graph.final:
        return whole_result(asked.outcome)
    final = records.get(execution.graph.final)
    result = None if final is None else _result_of(final)
    if result is not None:
        return result
    found = {name: _result_of(records[name]) for name in execution.state.leads if name in records}
    return next(iter(found.values())) if len(found) == 1 else found or None


def _result_of(record: StepRecord) -> Json:
    """What a server said when it refused a call is no result."""
    error: dict[str, Json] = record.outcome.get("error") or {}
    return None if record.status == "failed" and error.get("status") is not None else whole_result(record.outcome)


def summary_of(execution: Execution) -> dict[str, dict[str, Json]]:
    """name -> {status, attempts, duration_seconds}, in the playbook's order."""
    records = execution.state.records
    return {
        name: {
            "status": records[name].status,
            "attempts": records[name].attempts,
            "duration_seconds": records[name].duration,
        }
        for name in execution.graph.steps
        if name in records and not execution.graph.steps[name].is_synthetic
    }
