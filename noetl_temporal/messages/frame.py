"""The argument of the activity that runs a frame, what it returns and the details of its heartbeats: JSON, read by the
mirror by key.
"""

from __future__ import annotations

import msgspec

from noetl_temporal.limits import INLINE_BYTES
from noetl_temporal.machine.commands import ChunkInput
from noetl_temporal.machine.facts import ChunkReport
from noetl_temporal.naming import activity_type

__all__ = ["FRAME_ACTIVITY", "FRAME_KIND", "FrameDetails", "FrameEnd", "FrameInput"]

FRAME_KIND = "frame"
"""The word in the names of the activity and of its queue (naming.py)."""

FRAME_ACTIVITY = activity_type(FRAME_KIND)


class FrameInput(msgspec.Struct, frozen=True, omit_defaults=True):
    """The argument of the activity that runs a frame.

    ``limit`` is the bytes that one value may have.
    """

    input: ChunkInput
    limit: int = INLINE_BYTES


class FrameEnd(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of the activity that runs a frame.

    ``last_segment`` is the key of the last segment in the payload store; each names the one before it.
    """

    report: ChunkReport
    last_segment: str


class FrameDetails(msgspec.Struct, frozen=True, omit_defaults=True):
    """The details of a heartbeat, far below 4 KB. ``head`` is the key of the last stored segment, ``attempt`` the last
    attempt that made progress. ``ended`` of ``total`` items are stored, among them all of the first ``ended_prefix``.
    """

    head: str | None = None
    attempt: int = 0
    ended: int = 0
    ended_prefix: int = 0
    total: int = 0
