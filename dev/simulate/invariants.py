"""What must hold in every run, whatever happened to it. Each invariant has a file of its own."""

from __future__ import annotations

from dev.simulate.breakers import check_breakers
from dev.simulate.budgets import check_budgets
from dev.simulate.claims import check_claims
from dev.simulate.determinism import check_determinism
from dev.simulate.holds import check_holds
from dev.simulate.ids import check_ids
from dev.simulate.loops import check_loops
from dev.simulate.pauses import check_pauses
from dev.simulate.pipelines import check_pipelines
from dev.simulate.reports import check_report
from dev.simulate.run_trace import RunTrace
from dev.simulate.stops import check_stops

__all__ = ["check"]


INVARIANTS = (
    check_report,
    check_loops,
    check_claims,
    check_pipelines,
    check_breakers,
    check_stops,
    check_pauses,
    check_holds,
    check_budgets,
    check_ids,
    check_determinism,
)


def check(run_trace: RunTrace) -> None:
    """Raises Finding for the first broken invariant."""
    for invariant in INVARIANTS:
        invariant(run_trace)
