"""Counts the runs of a step inside a loop over steps, over all iterations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

__all__ = ["StepStatus", "StepTally", "TimeSpent", "add_counts", "add_tallies"]

StepStatus = Literal["running", "completed", "failed", "skipped", "cancelled"]

_BY_WEIGHT: tuple[StepStatus, ...] = ("running", "skipped", "completed", "cancelled", "failed")


class TimeSpent(msgspec.Struct, frozen=True, omit_defaults=True):
    """The time of the runs of a step in milliseconds: their sum, their first start and their last end."""

    total: int = 0
    since: int = 0
    until: int = 0

    @classmethod
    def of_run(cls, started: int, end: int) -> TimeSpent:
        """Return the time of one run."""
        return cls(end - started, started, end)

    @property
    def seconds(self) -> float:
        """Return the sum; where runs overlap, as those of parallel iterations do, at most the time that passed."""
        return min(self.total, self.until - self.since) / 1000

    def plus(self, more: TimeSpent) -> TimeSpent:
        """Return the time of both."""
        if not self.until or not more.until:
            return self if self.until else more
        return TimeSpent(self.total + more.total, min(self.since, more.since), max(self.until, more.until))


class StepTally(msgspec.Struct, frozen=True, omit_defaults=True):
    """The sum over the runs of a step inside a loop over steps.

    ``status`` is the most severe of the last runs of all iterations. ``attempts``, the ``retries`` among them, the
    ``iterations`` of its own loops ({total, success, failed, skipped}) are sums. All runs were ``reused`` where those
    of an earlier run were.
    """

    status: StepStatus
    attempts: int = 0
    retries: int = 0
    iterations: dict[str, int] = {}
    spent: TimeSpent = TimeSpent()
    reused: bool = False


def add_tallies(tallies: Mapping[str, StepTally], more: Mapping[str, StepTally]) -> dict[str, StepTally]:
    """Return the sum of both, by step."""
    if not tallies:
        return dict(more)
    return {**tallies, **{name: _add_tally(tallies.get(name), tally) for name, tally in more.items()}}


def _add_tally(tally: StepTally | None, more: StepTally) -> StepTally:
    if tally is None:
        return more
    status = max(_BY_WEIGHT.index(tally.status), _BY_WEIGHT.index(more.status))
    return StepTally(
        _BY_WEIGHT[status],
        tally.attempts + more.attempts,
        tally.retries + more.retries,
        add_counts(tally.iterations, more.iterations),
        tally.spent.plus(more.spent),
    )


def add_counts(counts: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    """Return the sums, by name."""
    return {name: counts.get(name, 0) + more.get(name, 0) for name in {**counts, **more}}
