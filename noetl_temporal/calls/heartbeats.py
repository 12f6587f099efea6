"""Heartbeats of an activity, which show Temporal that its worker is alive, and deliver cancel requests to the call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

__all__ = ["HEARTBEAT_INTERVAL", "heartbeating"]

HEARTBEAT_INTERVAL = timedelta(seconds=2)
"""Time between heartbeats. A cancel request is delivered by the response to one, so it takes up to this long."""


class heartbeating:  # noqa: N801 - it reads as a function
    """Call ``send_heartbeat`` every HEARTBEAT_INTERVAL until the block ends, the first time immediately if
    ``is_urgent``.

    Uses timers: most calls end before the first heartbeat, and a task for each of them would cost more.
    """

    def __init__(self, send_heartbeat: Callable[[], None], *, is_urgent: bool) -> None:
        self._send_heartbeat = send_heartbeat
        self._is_urgent = is_urgent

    def __enter__(self) -> None:
        if self._is_urgent:
            self._send_heartbeat()
        self._timer = self._start_timer()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def _start_timer(self) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(HEARTBEAT_INTERVAL.total_seconds(), self._repeat)

    def _repeat(self) -> None:
        self._timer = self._start_timer()
        self._send_heartbeat()
