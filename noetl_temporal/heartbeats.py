"""Heartbeats of an activity. They tell Temporal that a worker lives; their answers tell a call that it is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta

__all__ = ["BEAT", "beating"]

BEAT = timedelta(seconds=2)
"""A call learns that it is cancelled by the answer to a heartbeat: this is how long a person waits for it."""


@contextmanager
def beating(beat: Callable[[], None], *, at_once: bool) -> Generator[None]:
    """Call ``beat`` every BEAT until the block ends; and first ``at_once``.

    By timers, as most calls end before the first beat, and a task for each of them costs more.
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
