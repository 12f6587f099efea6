"""The heartbeat of a frame, from the first moment of its activity to the last."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec
from temporalio import activity

from noetl_temporal.attempt_log import BEAT
from noetl_temporal.frames.segments import FrameDetails

__all__ = ["Heart"]


class Heart:
    """``details`` are those of the next heartbeat, at first those that the attempt before left."""

    def __init__(self) -> None:
        found = activity.info().heartbeat_details
        self.details = msgspec.convert(found[0], FrameDetails) if found else FrameDetails()

    def beat(self) -> None:
        """Tell Temporal that the frame lives, and how far it has stored."""
        activity.heartbeat(self.details)

    @asynccontextmanager
    async def beating(self) -> AsyncGenerator[None]:
        """Beat at once and regularly until the block ends."""
        self.beat()
        task = asyncio.create_task(self._keep_beating())
        try:
            yield
        finally:
            task.cancel()

    async def _keep_beating(self) -> None:
        while True:
            await asyncio.sleep(BEAT.total_seconds())
            self.beat()
