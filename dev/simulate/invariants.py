"""What must hold in every run, whatever happened to it. Each law stands in a file of its own."""

from __future__ import annotations

from dev.simulate.again import check_again
from dev.simulate.breakers import check_breakers
from dev.simulate.budgets import check_budgets
from dev.simulate.claims import check_claims
from dev.simulate.holds import check_holds
from dev.simulate.ids import check_ids
from dev.simulate.loops import check_loops
from dev.simulate.pauses import check_pauses
from dev.simulate.pipelines import check_pipelines
from dev.simulate.run_trace import RunTrace
from dev.simulate.stops import check_stops
from dev.simulate.truth import check_truth

__all__ = ["check"]


LAWS = (
    check_truth,
    check_loops,
    check_claims,
    check_pipelines,
    check_breakers,
    check_stops,
    check_pauses,
    check_holds,
    check_budgets,
    check_ids,
    check_again,
)


def check(run_trace: RunTrace) -> None:
    """Raises Finding for the first law that does not hold."""
    for law in LAWS:
        law(run_trace)
