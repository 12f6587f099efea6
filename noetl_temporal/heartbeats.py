"""Heartbeats of an activity. They tell Temporal that a worker lives; their answers tell a call that it is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

__all__ = ["BEAT", "beating"]

BEAT = timedelta(seconds=2)
"""A call learns that it is cancelled by the answer to a heartbeat: this is how long a person waits for it."""


@asynccontextmanager
async def beating(beat: Callable[[], None], *, at_once: bool) -> AsyncGenerator[None]:
    """Call ``beat`` every BEAT until the block ends; and first ``at_once``."""
    if at_once:
        beat()
    task = asyncio.create_task(_keep_beating(beat))
    try:
        yield
    finally:
        task.cancel()


async def _keep_beating(beat: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(BEAT.total_seconds())
        beat()
