"""Simulates ``pause --now``: calls in flight are paused in Temporal, and repeated when the run is resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

__all__ = ["PausedCalls"]

LONGEST_MS = 3_000


class Alarm(Protocol):
    """The scheduled end of a call, which is dropped if it is ``off``."""

    off: bool
    act: Callable[[], None]


class World(Protocol):
    """The part of the world that is used."""

    def later(self, ms: int, act: Callable[[], None]) -> Any: ...
    def draw(self, low: int, high: int) -> int: ...


class PausedCalls:
    """The paused calls of one run and its chunks, from a pause to the next resume."""

    def __init__(self) -> None:
        self._calls: list[tuple[Any, Alarm]] = []

    def pause(self, calls: Iterable[Any]) -> None:
        """Put off the ends of these calls. A statement of a cursor is over before it can be paused, and a call that was
        asked to end is not paused any more.
        """
        for call in calls:
            if not call.is_stopping and not call.alarm.off and hasattr(call.alarm, "act"):
                call.alarm.off = True
                self._calls.append((call, call.alarm))

    def resume(self, world: World) -> None:
        """Let them end, except those that were cancelled meanwhile."""
        for call, alarm in self._calls:
            if not call.is_stopping and call.alarm is alarm:
                call.alarm = world.later(world.draw(1, LONGEST_MS), alarm.act)
        self._calls.clear()
