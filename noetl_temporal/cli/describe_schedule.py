"""Formats schedules for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import msgspec
from rich.table import Table

from noetl_temporal.schedule_types import PlaybookSchedule, ScheduleTimes
from noetl_temporal.utc_time import utc_cell

__all__ = ["described", "table"]

_NEXT_SHOWN = 5

_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60))


def table(schedules: Sequence[PlaybookSchedule]) -> Table:
    """Return a table with one row per schedule."""
    shown = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("schedule", "playbook", "times", "next (UTC)", "last (UTC)", ""):
        shown.add_column(name, no_wrap=True)
    for schedule in schedules:
        next_ = _moment(schedule.next[0]) if schedule.next and not schedule.is_paused else ""
        last = _moment(schedule.runs[-1].scheduled) if schedule.runs else ""
        shown.add_row(
            schedule.name,
            _playbook(schedule),
            _times(schedule.times),
            next_,
            last,
            "paused" if schedule.is_paused else "",
        )
    return shown


def described(schedule: PlaybookSchedule) -> str:
    """Return all facts about a schedule, one per line."""
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
        for number, at in enumerate(schedule.next[:_NEXT_SHOWN]):
            yield "" if number else "next", _moment(at)
    yield "runs", f"{schedule.started} started, {schedule.skipped} skipped by overlap, {schedule.missed} too late"
    for run in reversed(schedule.runs):
        yield "", f"{_moment(run.scheduled)}  {run.execution_id or run.workflow_id}"


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


def _moment(at: datetime) -> str:
    return utc_cell(at + timedelta(microseconds=500_000))
