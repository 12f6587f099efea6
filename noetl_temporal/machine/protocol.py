"""Tables of the facts that a machine accepts in each phase, checked before a fact changes anything."""

from __future__ import annotations

from collections.abc import Mapping

from noetl_temporal.machine.facts import (
    Answered,
    CancelRequested,
    ChunkFinished,
    Continued,
    Decided,
    Fact,
    IdleRequested,
    LimitReached,
    PauseRequested,
    Restored,
    RetryRequested,
    ReturnRequested,
    Signalled,
    SkipRequested,
    Started,
    TimerFired,
    ToolFinished,
    UnpauseRequested,
    ValueLoaded,
    ValuesStored,
    WaitClosed,
    WaitOpened,
)
from noetl_temporal.machine.state import MachineState

__all__ = ["ACCEPTED_FACTS", "COMPLETED_KINDS", "completed_id", "rejection_reason"]

_ENDS_OF_OPERATIONS = (ToolFinished, ChunkFinished, TimerFired, ValuesStored, ValueLoaded)
_CONTROL_FACTS = (CancelRequested, LimitReached, IdleRequested, ReturnRequested, Continued, Restored)
_PEOPLE_FACTS = (PauseRequested, UnpauseRequested, RetryRequested, SkipRequested)
_WAIT_FACTS = (Signalled, Decided, WaitOpened, WaitClosed, Answered)
ACCEPTED_FACTS: Mapping[str, tuple[type[Fact], ...]] = {
    "new": (Started,),
    "running": (
        ToolFinished,
        ChunkFinished,
        TimerFired,
        ValuesStored,
        ValueLoaded,
        *_PEOPLE_FACTS,
        *_WAIT_FACTS,
        *_CONTROL_FACTS,
    ),
    "ended": (),
}
"""Phase -> the facts that it accepts."""

COMPLETED_KINDS: Mapping[type[Fact], tuple[str, ...]] = {
    ToolFinished: ("call",),
    ChunkFinished: ("chunk",),
    TimerFired: ("delay", "deadline", "wait", "hold"),
    ValuesStored: ("store",),
    ValueLoaded: ("load",),
}
"""Fact -> the kinds of Pending that it ends."""


def completed_id(fact: Fact) -> str | None:
    """Return the id of the pending operation that the fact completes; None for other facts."""
    match fact:
        case ToolFinished():
            return fact.call_id
        case ChunkFinished():
            return fact.chunk_id
        case TimerFired():
            return fact.timer_id
        case ValuesStored():
            return fact.store_id
        case ValueLoaded():
            return fact.load_id
        case _:
            return None


def rejection_reason(fact: Fact, state: MachineState) -> str | None:
    """Return why the fact is not accepted; None if it is.

    A timer or stored value that is not pending is accepted: it may arrive just after it was cancelled.
    """
    kind = type(fact)
    if kind not in ACCEPTED_FACTS[state.phase]:
        return f"{kind.__name__} while the machine is {state.phase}"
    id_ = completed_id(fact)
    if id_ is None:
        return None
    operation = state.pending.get(id_) or state.timers.get(id_)
    if operation is None and kind not in (TimerFired, ValuesStored, ValueLoaded):
        return f"{kind.__name__}: nothing is pending under {id_!r}"
    if operation is not None and operation.kind not in COMPLETED_KINDS[kind]:
        return f"{kind.__name__}: {id_!r} is a {operation.kind}"
    return None
