"""Heartbeats of an activity, which show Temporal that its worker is alive, and deliver cancel requests to the call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta

__all__ = ["BEAT", "beating"]

BEAT = timedelta(seconds=2)
"""Seconds between heartbeats. A cancel request is delivered by the response to one, so it takes up to this long."""


@contextmanager
def beating(beat: Callable[[], None], *, at_once: bool) -> Generator[None]:
    """Call ``beat`` every BEAT seconds until the block ends, and immediately if ``at_once``.

    Uses timers: most calls end before the first beat, and a task for each of them would cost more.
    """
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle

    def wait() -> asyncio.TimerHandle:
        return loop.call_later(BEAT.total_seconds(), repeat)

    def repeat() -> None:
        nonlocal timer
        timer = wait()
        beat()

    if at_once:
        beat()
    timer = wait()
    try:
        yield
    finally:
        timer.cancel()
