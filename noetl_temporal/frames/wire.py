"""The argument of the activity that runs a frame, and what it returns: JSON in history, read by the mirror by key."""

from __future__ import annotations

import msgspec

from noetl_temporal.limits import INLINE_BYTES
from noetl_temporal.machine.commands import ChunkInput
from noetl_temporal.machine.events import ChunkReport
from noetl_temporal.naming import activity_type

__all__ = ["FRAME_ACTIVITY", "FRAME_KIND", "FrameEnd", "FrameInput"]

FRAME_KIND = "frame"
"""The word in the names of the activity and of its queue (naming.py)."""

FRAME_ACTIVITY = activity_type(FRAME_KIND)


class FrameInput(msgspec.Struct, frozen=True, omit_defaults=True):
    """``limit`` is the bytes that one value may have."""

    input: ChunkInput
    limit: int = INLINE_BYTES


class FrameEnd(msgspec.Struct, frozen=True, omit_defaults=True):
    """``segments`` is the key of the last segment in the payload store; each names the one before it."""

    report: ChunkReport
    segments: str
