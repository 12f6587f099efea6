"""Heartbeats of an activity, which show Temporal that its worker is alive, and deliver cancel requests to the call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

__all__ = ["HEARTBEAT_INTERVAL", "heartbeating"]

HEARTBEAT_INTERVAL = timedelta(seconds=2)
"""Time between heartbeats. A cancel request is delivered by the response to one, so it takes up to this long."""


class heartbeating:  # noqa: N801 - it reads as a function
    """Call ``beat`` at intervals of HEARTBEAT_INTERVAL until the block ends, and immediately if ``at_once``.

    Uses timers: most calls end before the first beat, and a task for each of them would cost more.
    """

    def __init__(self, beat: Callable[[], None], *, at_once: bool) -> None:
        self._beat = beat
        self._at_once = at_once

    def __enter__(self) -> None:
        if self._at_once:
            self._beat()
        self._timer = self._wait()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def _wait(self) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(HEARTBEAT_INTERVAL.total_seconds(), self._repeat)

    def _repeat(self) -> None:
        self._timer = self._wait()
        self._beat()
