"""The last results of steps and tasks, for templates and for the summary of a run."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from noetl_temporal.machine.call import PlainOutcome
from noetl_temporal.machine.failure_log import FailureLog
from noetl_temporal.machine.tally import StepStatus, TimeSpent

__all__ = ["StepRecord", "TaskRecord", "latest_records"]


class TaskRecord(msgspec.Struct, omit_defaults=True):
    """The last outcome of a task, with the kind of its tool (``collected`` for a collected result). ``attempt`` and
    ``page`` are the numbers of its call.
    """

    kind: str
    outcome: PlainOutcome
    attempt: int = 1
    page: int = 1


class StepRecord(msgspec.Struct, omit_defaults=True):
    """The last result of a step, for templates and for the summary of the run. ``iterations`` counts the iterations of
    its loops: {total, success, failed, skipped}. ``failures`` are those of the items of a loop over steps, until the
    step that ends the loop handles them or fails. A record is ``reused`` if the step ran in the earlier run of a rerun.
    """

    status: StepStatus
    kind: str = ""
    outcome: PlainOutcome = {}
    tasks: dict[str, TaskRecord] = {}
    attempts: int = 0
    retries: int = 0
    iterations: dict[str, int] = {}
    spent: TimeSpent = TimeSpent()
    failures: FailureLog = FailureLog()
    reused: bool = False


def latest_records(
    records: Mapping[str, tuple[int, StepRecord]], others: Mapping[str, tuple[int, StepRecord]]
) -> dict[str, tuple[int, StepRecord]]:
    """Return for each step the record of the iteration with the higher index."""
    result = dict(records)
    for name, entry in others.items():
        if name not in result or result[name][0] <= entry[0]:
            result[name] = entry
    return result
