"""``now()`` in a template: the time of the event that the run is processing, so that a replay sees the same time."""

from __future__ import annotations

import datetime

__all__ = ["Clock"]


class Clock:
    """The function ``now``, which always returns the same time. ``milliseconds`` since the epoch (UTC)."""

    __slots__ = ("_milliseconds",)

    def __init__(self, milliseconds: int) -> None:
        self._milliseconds = milliseconds

    def __call__(self) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self._milliseconds / 1000, datetime.UTC)

    def materialise(self) -> str:
        """Return the time as an ISO 8601 string, for templates that use ``now`` without calling it."""
        return self().isoformat()
