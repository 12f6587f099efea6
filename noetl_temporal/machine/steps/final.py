"""The names that only the final step sees: the statuses of the other steps, and the failures (semantics.md 35)."""

from __future__ import annotations

from typing import Any

from noetl_compiler.graph import Graph
from noetl_temporal.machine.failure_log import FailureLog
from noetl_temporal.machine.state import PlaybookState
from noetl_temporal.machine.tally import StepTally, add_tallies

__all__ = ["final_names"]

_VISIBLE_FIELDS = ("step", "task", "kind", "message", "iteration", "handled")
"""The fields of a failure that templates see."""


def final_names(graph: Graph, state: PlaybookState, failures: FailureLog) -> dict[str, Any]:
    """Return ``steps``, the status of each other step of the playbook, None if it has not run, and ``failures``, those
    that the log has in detail.
    """
    tallies = add_tallies(
        state.loop_tallies, {name: StepTally(record.status) for name, record in state.records.items()}
    )
    others = [name for name, step in graph.steps.items() if not step.injected and name != graph.final]
    return {
        "steps": {name: tallies[name].status if name in tallies else None for name in others},
        "failures": [{field: getattr(failure, field) for field in _VISIBLE_FIELDS} for failure in failures.detailed],
    }
