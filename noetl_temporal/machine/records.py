"""How steps and tasks ended: what their names give to templates, and what the run's summary says of them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from noetl_temporal.machine.call import PlainOutcome
from noetl_temporal.machine.failure_log import FailureLog
from noetl_temporal.machine.tally import StepStatus

__all__ = ["StepRecord", "TaskRecord", "later"]


class TaskRecord(msgspec.Struct):
    """The last outcome of a task of the pipeline, under its tool's kind (``collected`` for a collected result)."""

    kind: str
    outcome: PlainOutcome


class StepRecord(msgspec.Struct, omit_defaults=True):
    """How a step ended last: what its name gives to templates and what the run's summary says of it. ``iterations``
    counts those of its loops: {total, success, failed, skipped}. ``failures`` are those of the items of a loop over
    steps, until the step that ends it decides what becomes of them.
    """

    status: StepStatus
    kind: str = ""
    outcome: PlainOutcome = {}
    tasks: dict[str, TaskRecord] = {}
    attempts: int = 0
    retries: int = 0
    iterations: dict[str, int] = {}
    duration: float = 0.0
    failures: FailureLog = FailureLog()


def later(
    some: Mapping[str, tuple[int, StepRecord]], more: Mapping[str, tuple[int, StepRecord]]
) -> dict[str, tuple[int, StepRecord]]:
    """Of each step the record of the iteration with the higher index."""
    found = dict(some)
    for name, one in more.items():
        if name not in found or found[name][0] <= one[0]:
            found[name] = one
    return found
