"""Rewords Temporal's errors about the times of a schedule."""

from __future__ import annotations

import re

from noetl_temporal.submission.schedule_types import ScheduleTimes

__all__ = ["times_error"]

_INVALID_TIMES = "Invalid schedule spec: "
_FIELD_COUNT = "CronString does not have 5-7 fields"
_RANGE = re.compile(r"(\w+) is not in range \[(\d+)-(\d+)\]")
_WORD_START = re.compile(r"(?<!^)(?=[A-Z])")


def times_error(message: str, times: ScheduleTimes) -> str | None:
    """Return our message for times that Temporal's ``message`` says are invalid; None for any other message."""
    if not message.startswith(_INVALID_TIMES):
        return None
    reason = message.removeprefix(_INVALID_TIMES)
    if reason == _FIELD_COUNT:
        return f"{_subject(times)} needs five fields: minute, hour, day of month, month and day of week"
    if match := _RANGE.fullmatch(reason):
        field = _WORD_START.sub(" ", match[1]).lower()
        return f"{_subject(times)} is invalid: the {field} must be from {match[2]} to {match[3]}"
    return f"the times of the schedule are invalid: {reason}"


def _subject(times: ScheduleTimes) -> str:
    words = "the cron expression" if len(times.cron) == 1 else "one of the cron expressions"
    return f"{words} {', '.join(map(repr, times.cron))}"
