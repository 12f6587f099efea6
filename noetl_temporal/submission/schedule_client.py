"""The schedules of registered playbooks, for the Python client and the commands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from temporalio.client import Client

from noetl_compiler import CompileError
from noetl_compiler.graph import Json
from noetl_temporal.naming import Overlap
from noetl_temporal.submission.catalog_store import CatalogEntry, RegisteredVersion
from noetl_temporal.submission.preparation import Preparation
from noetl_temporal.submission.schedule_types import (
    CATCH_UP,
    PlaybookSchedule,
    ScheduleError,
    ScheduleTimes,
)
from noetl_temporal.submission.schedules import TemporalSchedules
from noetl_temporal.submission.unsupported import UnsupportedError

__all__ = ["MovedSchedule", "PlaybookSchedules"]


class MovedSchedule(NamedTuple):
    """A schedule of ``path`` that was moved from ``previous_version`` to ``version``. If it could not be moved,
    ``problem`` is the reason.
    """

    schedule: str
    path: str
    previous_version: int
    version: int
    problem: str = ""


class PlaybookSchedules:
    """The schedules. Methods raise ScheduleError for a missing or invalid schedule, and DeploymentError."""

    def __init__(self, temporal: Client, preparation: Preparation) -> None:
        self._preparation = preparation
        self._temporal = TemporalSchedules(temporal)

    async def add(
        self,
        path: str,
        version: int | None = None,
        *,
        name: str | None = None,
        cron: str | Sequence[str] = (),
        every: timedelta | None = None,
        payload: Mapping[str, Json] | None = None,
        time_zone: str | None = None,
        jitter: timedelta = timedelta(),
        overlap: Overlap = "skip",
        catch_up: timedelta = CATCH_UP,
        paused: bool = False,
    ) -> PlaybookSchedule:
        """Run a registered playbook on a schedule: at the times of ``cron``, at intervals of ``every``, or both.

        With a version it is pinned; without one it follows the path: each run is of the version that is the newest one
        when it starts. The default name is the path. Raises CompileError, UnsupportedError, UnknownPlaybookError,
        NoEventLogError.
        """
        expressions = (cron,) if isinstance(cron, str) else tuple(cron)
        if not expressions and every is None:
            raise ScheduleError("a schedule needs times: cron expressions, or an interval")
        seconds = None if every is None else every.total_seconds()
        if seconds is not None and seconds < 1:
            raise ScheduleError("the interval of a schedule is at least a second")
        entry = await self._preparation.catalog.get(path, version)
        schedule_name = name or path
        request = payload or {}
        playbook = await self._preparation.prepare(entry, request)
        await self._temporal.add(
            self._preparation.run_input(playbook, request, 0, {}, schedule_name),
            playbook,
            entry.version,
            ScheduleTimes(expressions, seconds, time_zone, jitter.total_seconds()),
            follows=version is None,
            overlap=overlap,
            catch_up=catch_up,
            is_paused=paused,
        )
        return await self.get(schedule_name)

    async def list(self, path: str | None = None) -> Sequence[PlaybookSchedule]:
        """Return all schedules, or those of a path, sorted by name. It may take a second until a new one is listed."""
        return await self._temporal.list_all(path)

    async def get(self, name: str) -> PlaybookSchedule:
        """Return the schedule, its next times and its latest runs."""
        return await self._temporal.get(name)

    async def pause(self, name: str, note: str | None = None) -> None:
        """Pause the schedule: it starts no runs until it is resumed. Runs in progress continue."""
        await self._temporal.pause(name, note)

    async def resume(self, name: str, note: str | None = None) -> None:
        """Resume a paused schedule. The runs of the time in which it was paused are not started: use ``backfill``."""
        await self._temporal.resume(name, note)

    async def trigger(self, name: str, overlap: Overlap | None = None) -> None:
        """Start a run now, if ``overlap``, by default the schedule's policy, allows it."""
        await self._temporal.trigger(name, overlap)

    async def backfill(self, name: str, start: datetime, end: datetime, overlap: Overlap | None = "buffer_all") -> None:
        """Start the runs of a period in the past; by default each one starts after the previous one has ended."""
        if start.tzinfo is None or end.tzinfo is None:
            raise ScheduleError("the times of a backfill need a time zone")
        if start >= end:
            raise ScheduleError(f"a backfill ends after it starts: {end.isoformat()} is not after {start.isoformat()}")
        await self._temporal.backfill(name, start, end, overlap)

    async def delete(self, name: str) -> None:
        """Delete a schedule; its runs continue."""
        await self._temporal.delete(name)

    async def move_to_newest(self, playbooks: Iterable[RegisteredVersion]) -> Sequence[MovedSchedule]:
        """Move the schedules that follow the paths of these playbooks to the newest versions."""
        moves: dict[str, MovedSchedule] = {}
        for path in sorted({playbook.entry.path for playbook in playbooks}):
            entry = await self._preparation.catalog.get(path)
            is_newest = False
            while not is_newest:  # another client may register a newer version meanwhile
                moves |= await self._move_schedules(entry)
                moved_to, entry = entry, await self._preparation.catalog.get(path)
                is_newest = moved_to.version == entry.version
        return [*moves.values()]

    async def _move_schedules(self, entry: CatalogEntry) -> Mapping[str, MovedSchedule]:
        outdated = [
            schedule
            for schedule in await self._temporal.list_all(entry.path)
            if schedule.follows and schedule.version < entry.version
        ]
        moves = [await self._move_schedule(schedule, entry) for schedule in outdated]
        return {move.schedule: move for move in moves if move is not None}

    async def _move_schedule(self, schedule: PlaybookSchedule, entry: CatalogEntry) -> MovedSchedule | None:
        """Move a schedule to a newer version. Returns the result; None if another client has moved it."""
        name, old_version = schedule.name, schedule.version
        if schedule.payload is None:
            return MovedSchedule(
                name, entry.path, old_version, entry.version, "its payload cannot be read: delete it and add it again"
            )
        try:
            playbook = await self._preparation.prepare(entry, schedule.payload)
            previous_version = await self._temporal.move(name, entry.version, playbook)
        except (CompileError, UnsupportedError, ScheduleError) as error:
            return MovedSchedule(name, entry.path, old_version, entry.version, str(error))
        return None if previous_version is None else MovedSchedule(name, entry.path, previous_version, entry.version)
