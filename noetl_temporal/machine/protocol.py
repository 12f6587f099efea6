"""Tables of the facts that a machine admits in each phase, checked before a fact changes anything."""

from __future__ import annotations

from collections.abc import Mapping

from noetl_temporal.machine.events import (
    CancelRequested,
    Continued,
    Event,
    HoldRequested,
    LimitReached,
    LoopFinished,
    Resumed,
    Started,
    TimerFired,
    ToolFinished,
)
from noetl_temporal.machine.state import MachineState, Pending

__all__ = ["ADMITTED", "ANSWERED", "unexpected"]

_CONTROL = (CancelRequested, LimitReached, HoldRequested, Continued, Resumed)
ADMITTED: Mapping[str, tuple[type[Event], ...]] = {
    "new": (Started,),
    "running": (ToolFinished, LoopFinished, TimerFired, *_CONTROL),
    "ended": (),
}
"""Phase -> the facts that it admits."""

ANSWERED: Mapping[type[Event], tuple[str, ...]] = {
    ToolFinished: ("call",),
    LoopFinished: ("loop",),
    TimerFired: ("delay", "deadline"),
}
"""Fact -> the kinds of Pending that it ends."""


def unexpected(event: Event, state: MachineState) -> str | None:
    """Why the fact is not admitted; None when it is.

    A timer that is not pending is admitted: it may fire just as it is cancelled.
    """
    kind = type(event)
    if kind not in ADMITTED[state.phase]:
        return f"{kind.__name__} while the machine is {state.phase}"
    if isinstance(event, ToolFinished):
        return _unanswered(event, state.pending.get(event.call_id), event.call_id)
    if isinstance(event, LoopFinished):
        return _unanswered(event, state.pending.get(event.loop_id), event.loop_id)
    if isinstance(event, TimerFired):
        found = state.pending.get(event.timer_id) or state.timers.get(event.timer_id)
        return None if found is None else _unanswered(event, found, event.timer_id)
    return None


def _unanswered(event: Event, found: Pending | None, id_: str) -> str | None:
    if found is None:
        return f"{type(event).__name__}: nothing is pending under {id_!r}"
    if found.kind not in ANSWERED[type(event)]:
        return f"{type(event).__name__}: {id_!r} is a {found.kind}"
    return None
