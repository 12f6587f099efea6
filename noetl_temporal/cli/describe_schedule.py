"""Formats schedules for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import msgspec
from rich.table import Table

from noetl_temporal.submission.schedule_types import PlaybookSchedule, ScheduleTimes
from noetl_temporal.utc_time import utc_cell

__all__ = ["schedule_details", "schedule_table"]

_MAX_NEXT_TIMES = 5

_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60))


def schedule_table(schedules: Sequence[PlaybookSchedule]) -> Table:
    """Return a table with one row per schedule."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("schedule", "playbook", "times", "next (UTC)", "last (UTC)", ""):
        table.add_column(name, no_wrap=True)
    for schedule in schedules:
        next_ = _rounded_time(schedule.next[0]) if schedule.next and not schedule.is_paused else ""
        last = _rounded_time(schedule.runs[-1].scheduled) if schedule.runs else ""
        table.add_row(
            schedule.name,
            _playbook(schedule),
            _times(schedule.times),
            next_,
            last,
            "paused" if schedule.is_paused else "",
        )
    return table


def schedule_details(schedule: PlaybookSchedule) -> str:
    """Describe a schedule, one property per line."""
    return "\n".join(f"{name:<10}{value}".rstrip() for name, value in _lines(schedule))


def _lines(schedule: PlaybookSchedule) -> Iterator[tuple[str, str]]:
    yield "schedule", schedule.name
    yield "playbook", _playbook(schedule)
    yield "times", _times(schedule.times)
    yield "overlap", f"{schedule.overlap}, catch-up {_duration(schedule.catch_up.total_seconds())}"
    if schedule.payload is None:
        yield "payload", "cannot be read here"
    elif schedule.payload:
        yield "payload", msgspec.json.encode(schedule.payload).decode()
    if schedule.is_paused:
        yield "paused", schedule.note
    else:
        for number, at in enumerate(schedule.next[:_MAX_NEXT_TIMES]):
            yield "" if number else "next", _rounded_time(at)
    yield "runs", f"{schedule.started} started, {schedule.skipped} skipped by overlap, {schedule.missed} too late"
    for run in reversed(schedule.runs):
        yield "", f"{_rounded_time(run.scheduled)}  {run.execution_id or run.workflow_id}"


def _playbook(schedule: PlaybookSchedule) -> str:
    return f"{schedule.path}@{schedule.version}{', follows the newest' if schedule.follows else ''}"


def _times(times: ScheduleTimes) -> str:
    parts = [f"cron {expression}" for expression in times.cron]
    if times.every is not None:
        parts.append(f"every {_duration(times.every)}")
    if times.jitter:
        parts.append(f"up to {_duration(times.jitter)} later")
    return ", ".join(parts) + (f" ({times.time_zone})" if times.time_zone else "")


def _duration(seconds: float) -> str:
    for unit, size in _UNITS:
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"


def _rounded_time(at: datetime) -> str:
    return utc_cell(at + timedelta(microseconds=500_000))
