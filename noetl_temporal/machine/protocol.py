"""Tables of the facts that a machine admits in each phase, checked before a fact changes anything."""

from __future__ import annotations

from collections.abc import Mapping

from noetl_temporal.machine.events import (
    CancelRequested,
    ChunkFinished,
    Continued,
    Event,
    HoldRequested,
    LimitReached,
    RestRequested,
    Resumed,
    Started,
    TimerFired,
    ToolFinished,
)
from noetl_temporal.machine.state import MachineState

__all__ = ["ADMITTED", "ANSWERED", "unexpected"]

_CONTROL = (CancelRequested, LimitReached, HoldRequested, RestRequested, Continued, Resumed)
ADMITTED: Mapping[str, tuple[type[Event], ...]] = {
    "new": (Started,),
    "running": (ToolFinished, ChunkFinished, TimerFired, *_CONTROL),
    "ended": (),
}
"""Phase -> the facts that it admits."""

ANSWERED: Mapping[type[Event], tuple[str, ...]] = {
    ToolFinished: ("call",),
    ChunkFinished: ("chunk",),
    TimerFired: ("delay", "deadline"),
}
"""Fact -> the kinds of Pending that it ends."""


def unexpected(event: Event, state: MachineState) -> str | None:
    """Why the fact is not admitted; None when it is.

    A timer that is not pending is admitted: it may fire just as it is cancelled.
    """
    name = type(event).__name__
    if not isinstance(event, ADMITTED[state.phase]):
        return f"{name} while the machine is {state.phase}"
    if isinstance(event, ToolFinished | ChunkFinished | TimerFired):
        id_ = _answered_id(event)
        found = state.pending.get(id_) or state.timers.get(id_)
        if found is None and not isinstance(event, TimerFired):
            return f"{name}: nothing is pending under {id_!r}"
        if found is not None and found.kind not in ANSWERED[type(event)]:
            return f"{name}: {id_!r} is a {found.kind}"
    return None


def _answered_id(event: ToolFinished | ChunkFinished | TimerFired) -> str:
    match event:
        case ToolFinished():
            return event.call_id
        case ChunkFinished():
            return event.chunk_id
        case TimerFired():
            return event.timer_id
