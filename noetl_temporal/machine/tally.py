"""Counts the runs of a step inside a loop over steps, over all iterations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

__all__ = ["StepStatus", "StepTally", "added", "tallied"]

StepStatus = Literal["running", "completed", "failed", "skipped", "cancelled"]

_BY_WEIGHT: tuple[StepStatus, ...] = ("running", "skipped", "completed", "cancelled", "failed")


class StepTally(msgspec.Struct, frozen=True, omit_defaults=True):
    """The sum over the runs of a step inside a loop over steps.

    ``status`` is the most severe of the last runs of all iterations. ``attempts``, the ``retries`` among them, the
    ``iterations`` of its own loops ({total, success, failed, skipped}) and ``duration`` in seconds are sums. All runs
    were ``reused`` where those of an earlier run were.
    """

    status: StepStatus
    attempts: int = 0
    retries: int = 0
    iterations: dict[str, int] = {}
    duration: float = 0.0
    reused: bool = False


def tallied(found: Mapping[str, StepTally], more: Mapping[str, StepTally]) -> dict[str, StepTally]:
    """Return the sum of both, by step."""
    return {**found, **{name: _added(found.get(name), one) for name, one in more.items()}}


def _added(found: StepTally | None, more: StepTally) -> StepTally:
    if found is None:
        return more
    status = max(_BY_WEIGHT.index(found.status), _BY_WEIGHT.index(more.status))
    return StepTally(
        _BY_WEIGHT[status],
        found.attempts + more.attempts,
        found.retries + more.retries,
        added(found.iterations, more.iterations),
        found.duration + more.duration,
    )


def added(some: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    """Return the sums, by name."""
    return {name: some.get(name, 0) + more.get(name, 0) for name in {**some, **more}}
