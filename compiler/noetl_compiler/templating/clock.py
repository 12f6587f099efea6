"""``now()`` in a template: the time of what a run is just working on, so that a replay sees the same."""

from __future__ import annotations

import datetime

__all__ = ["Clock"]


class Clock:
    """Stands still at a time in milliseconds since the epoch, UTC. Its holder binds it as ``now``."""

    __slots__ = ("_at",)

    def __init__(self, at: int) -> None:
        self._at = at

    def __call__(self) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self._at / 1000, datetime.UTC)

    def materialise(self) -> str:
        """The time as text, where the clock itself is passed on."""
        return self().isoformat()
