"""The frames of a loop: how many of its items run in one activity, and how many at once (semantics.md 22d)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl_compiler import templates
from noetl_compiler.graph import Frame, Loop, Value
from noetl_compiler.language import defaults
from noetl_temporal.machine import quantities
from noetl_temporal.machine.commands import FrameLimits

__all__ = ["MAX_ROWS", "NO_STORE", "frame_limits"]

MAX_ROWS = 10_000
"""Maximum number of items of a frame: its items and results are held in the memory of one worker."""

NO_STORE = (
    '"frame" has no effect: a frame stores its progress in Postgres, and the run was submitted without NOETL_POSTGRES'
)


def frame_limits(loop: Loop, scope: Mapping[str, Any], max_in_flight: int) -> FrameLimits | None:
    """Return the limits of the loop's frames, None for a loop without frames. Raises TemplateFailure.

    ``max_in_flight`` is the maximum number of items of the loop that run at once, in all its frames.
    """
    frame = loop.frame
    if frame is None:
        return None
    return FrameLimits(
        max_rows=min(MAX_ROWS, _count(frame, "max_rows", scope)),
        max_seconds=quantities.seconds(_render(frame, "max_seconds", scope), "max_seconds", frame.span),
        max_bytes=_count(frame, "max_bytes", scope),
        row_concurrency=min(max_in_flight, _count(frame, "row_concurrency", scope)),
    )


def _count(frame: Frame, name: str, scope: Mapping[str, Any]) -> int:
    return quantities.count(_render(frame, name, scope), name, frame.span, minimum=1)


def _render(frame: Frame, name: str, scope: Mapping[str, Any]) -> Any:
    """Return the value of a field; its default if it is not set or its template yields null."""
    value: Value | None = getattr(frame, name)
    result = None if value is None else templates.render(value, scope)
    return defaults.FRAME[name] if result is None else result
