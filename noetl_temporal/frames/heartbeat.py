"""The heartbeat of a frame, from the first moment of its activity to the last."""

from __future__ import annotations

from contextlib import AbstractContextManager

import msgspec
from temporalio import activity

from noetl_temporal.calls.heartbeats import heartbeating
from noetl_temporal.messages.frame import FrameDetails

__all__ = ["FrameHeartbeat"]


class FrameHeartbeat:
    """Sends the heartbeats of a frame.

    ``details`` are those of the next heartbeat, initially those of the previous attempt.
    """

    def __init__(self) -> None:
        details = activity.info().heartbeat_details
        self.details = msgspec.convert(details[0], FrameDetails) if details else FrameDetails()

    def beat(self) -> None:
        """Send a heartbeat with the stored progress."""
        activity.heartbeat(self.details)

    def heartbeating(self) -> AbstractContextManager[None]:
        """Beat at once and regularly until the block ends."""
        return heartbeating(self.beat, is_urgent=True)
