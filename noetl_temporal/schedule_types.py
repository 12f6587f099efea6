"""The data of a schedule (schedules.py)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec
from temporalio.client import ScheduleIntervalSpec, ScheduleSpec

from noetl_temporal.naming import Overlap
from noetl_temporal.run_input import Playbook, RunInput

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
"""How late a run may start after Temporal was unavailable; later ones are skipped."""


class ScheduleError(Exception):
    """There is no such schedule, it exists already, or Temporal refuses it."""


class ScheduleTimes(msgspec.Struct, frozen=True, omit_defaults=True):
    """When a schedule starts runs.

    ``cron`` are expressions of five fields, ``every`` is in seconds from the Unix epoch. Each run starts up to
    ``jitter`` seconds later. ``time_zone`` is that of cron, UTC by default.
    """

    cron: tuple[str, ...] = ()
    every: float | None = None
    time_zone: str | None = None
    jitter: float = 0

    def spec(self) -> ScheduleSpec:
        """Return the schedule spec of Temporal."""
        return ScheduleSpec(
            cron_expressions=list(self.cron),
            intervals=[] if self.every is None else [ScheduleIntervalSpec(timedelta(seconds=self.every))],
            jitter=timedelta(seconds=self.jitter) if self.jitter else None,
            time_zone_name=self.time_zone,
        )


class ScheduleMemo(msgspec.Struct, frozen=True, omit_defaults=True):
    """Facts about a schedule that Temporal does not return as they were written. ``follows`` if the schedule was given
    no version.
    """

    path: str
    times: ScheduleTimes
    follows: bool = False


class ScheduledRun(msgspec.Struct, frozen=True):
    """A run that a schedule has started.

    ``execution_id`` is None while the run has not begun, and when Temporal has removed it.
    """

    scheduled: datetime
    workflow_id: str
    execution_id: int | None


class PlaybookSchedule(msgspec.Struct, frozen=True):
    """A schedule of a playbook.

    ``version`` is the catalog's; with ``follows`` it changes with the path. ``next`` are the next times. ``missed``
    counts runs that came too late to catch up, ``skipped`` those that met an earlier run. ``payload`` is None where it
    cannot be read: it is stored elsewhere, or not signed.
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
    """The arguments of each run."""

    run: RunInput
    playbook: Playbook
