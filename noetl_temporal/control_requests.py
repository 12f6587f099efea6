"""What is asked of a run that waits, and what its workflows tell each other about waits: JSON in history.

A request is signed as a submission is, for the run that it is sent to (signing.py). Its ``id`` rises with time and
makes a repeated one harmless: also one that somebody repeats who can read Temporal but has no key.
"""

from __future__ import annotations

import msgspec

from noetl_compiler.graph import Json
from noetl_temporal.machine.waits.wait import Answer, Signal, Wait

__all__ = ["ClosedWait", "DecisionRequest", "HandedAnswer", "OpenWaits", "SignalRequest"]


class SignalRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """Send a signal."""

    id: int
    signal: Signal


class DecisionRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """Approve or reject. ``wait_id`` is that of the approval that was shown, so that no other is decided."""

    id: int
    wait_id: str
    approved: bool
    by: str
    reason: str = ""
    form: dict[str, Json] = {}


class OpenWaits(msgspec.Struct, frozen=True):
    """The waits of a run, from the oldest on."""

    waits: list[Wait]


class ClosedWait(msgspec.Struct, frozen=True, omit_defaults=True):
    """A chunk tells its playbook of a wait that has ended."""

    wait_id: str
    is_answered: bool = False
    returned: Signal | None = None


class HandedAnswer(msgspec.Struct, frozen=True):
    """A playbook hands an answer to a chunk."""

    wait_id: str
    answer: Answer
