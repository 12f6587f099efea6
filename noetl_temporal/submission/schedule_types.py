"""The types of a schedule's data (schedules.py)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec
from temporalio.client import ScheduleIntervalSpec, ScheduleSpec

from noetl_temporal.messages.run_input import Playbook, RunInput
from noetl_temporal.naming import Overlap

__all__ = [
    "CATCH_UP",
    "PlaybookSchedule",
    "ScheduleError",
    "ScheduleInput",
    "ScheduleMemo",
    "ScheduleTimes",
    "ScheduledRun",
]

CATCH_UP = timedelta(minutes=10)
"""How late a run may start if Temporal was unavailable at its time; later ones are skipped."""


class ScheduleError(Exception):
    """A schedule does not exist, exists already, or is refused by Temporal."""


class ScheduleTimes(msgspec.Struct, frozen=True, omit_defaults=True):
    """The times at which a schedule starts runs.

    ``cron`` are expressions of five fields, in ``time_zone``, by default UTC. ``every`` is an interval in seconds; the
    times are its multiples since the Unix epoch. Each run starts up to ``jitter`` seconds later.
    """

    cron: tuple[str, ...] = ()
    every: float | None = None
    time_zone: str | None = None
    jitter: float = 0

    def spec(self) -> ScheduleSpec:
        """Return the times as Temporal's ScheduleSpec."""
        return ScheduleSpec(
            cron_expressions=list(self.cron),
            intervals=[] if self.every is None else [ScheduleIntervalSpec(timedelta(seconds=self.every))],
            jitter=timedelta(seconds=self.jitter) if self.jitter else None,
            time_zone_name=self.time_zone,
        )


class ScheduleMemo(msgspec.Struct, frozen=True, omit_defaults=True):
    """Data of a schedule that Temporal does not store, or not unchanged. ``follows`` if the schedule follows its path,
    as it was added without a version.
    """

    path: str
    times: ScheduleTimes
    follows: bool = False


class ScheduledRun(msgspec.Struct, frozen=True):
    """A run that a schedule has started. ``execution_id`` is None before the run begins, and after Temporal has removed
    it.
    """

    scheduled: datetime
    workflow_id: str
    execution_id: int | None


class PlaybookSchedule(msgspec.Struct, frozen=True):
    """A schedule of a playbook.

    ``version`` is that of the catalog. If the schedule ``follows`` its path, each registration moves it to the newest
    version. ``next`` are the next times. ``missed`` is the number of runs that were later than ``catch_up``,
    ``skipped`` that of runs that the ``overlap`` policy skipped. ``payload`` is None if it cannot be read, as this
    process lacks the payload store or a key.
    """

    name: str
    path: str
    version: int
    follows: bool
    times: ScheduleTimes
    overlap: Overlap
    catch_up: timedelta
    is_paused: bool
    note: str
    payload: dict[str, Any] | None
    next: tuple[datetime, ...]
    runs: tuple[ScheduledRun, ...]
    started: int
    missed: int
    skipped: int


class ScheduleInput(NamedTuple):
    """The arguments of the workflow of each run."""

    run: RunInput
    playbook: Playbook
