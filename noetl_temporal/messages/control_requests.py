"""Requests to a run, and messages between its workflows about waits and pauses: JSON in history.

Requests are signed like submissions, for the run to which they are sent (signing.py). Ids of requests rise with time,
so a repeated request is ignored, also one that is replayed by somebody who can read Temporal but has no key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from noetl_compiler.graph import Json
from noetl_temporal.machine.held_steps import HeldStep, held_steps
from noetl_temporal.machine.pause import Pause
from noetl_temporal.machine.waits.wait import Answer, Signal, Wait

if TYPE_CHECKING:  # imports what only workers need otherwise
    from noetl_temporal.machine.state import PlaybookState

__all__ = [
    "ClosedWait",
    "DecidedRuns",
    "DecisionRequest",
    "ForwardedAnswer",
    "HeldRequest",
    "OpenWaits",
    "OpenedWait",
    "PauseNotice",
    "PauseRequest",
    "SignalRequest",
    "requester_refusal",
]

MAX_LISTED_HELD_RUNS = 500
"""The maximum number of held runs of steps in the response to a query, which may have 2 MB."""

MAX_NAME_CHARACTERS = 200
MAX_REASON_CHARACTERS = 4_000
"""The maximum length of the requester's name and of the reason, which state and events store."""


class SignalRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """Send a signal."""

    id: int
    signal: Signal


class DecisionRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """Approve or reject the approval ``wait_id``. ``by`` is the name of the person who decides."""

    id: int
    wait_id: str
    approved: bool
    by: str
    reason: str = ""
    form: dict[str, Json] = {}


class PauseRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """Pause the run or resume it, as the name of the update says. ``by`` is the name of the requester."""

    id: int
    by: str = ""
    reason: str = ""


class HeldRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """Retry a held ``step``, or skip it with ``data`` as its result, as the name of the update says. An empty ``step``
    is the only one that is held; ``load#2`` is the second run of ``load``, ``load[3]`` that for the loop item with
    index 3. With ``all``, it is about all held runs that ``step`` names; an empty one names all of the run.
    """

    id: int
    step: str = ""
    data: Json = None
    by: str = ""
    reason: str = ""
    all: bool = False


class DecidedRuns(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of a HeldRequest: the number of held step runs that it decided, and the name of the oldest one. A
    repeated request decides none.
    """

    count: int = 0
    first: str = ""


class OpenWaits(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a run waits for: its waits and its held steps, from the oldest on, and its pause. At most
    MAX_LISTED_HELD_RUNS of the ``held_count`` held runs of steps are listed: the answer to a query has at most 2 MB.
    """

    waits: list[Wait]
    held: list[HeldStep] = []
    pause: Pause | None = None
    held_count: int = 0

    @classmethod
    def from_state(cls, state: PlaybookState) -> OpenWaits:
        """Return what a machine with this state waits for."""
        waits = sorted(state.waits.values(), key=lambda wait: wait.age)
        held = held_steps(waits)
        return cls([wait for wait in waits if wait.kind != "held"], held[:MAX_LISTED_HELD_RUNS], state.pause, len(held))


class PauseNotice(msgspec.Struct, frozen=True, omit_defaults=True):
    """Notifies a workflow that the one that waits for it was paused or resumed."""

    is_paused: bool
    by: str = ""
    reason: str = ""


class OpenedWait(msgspec.Struct, frozen=True):
    """Notifies a playbook of a wait that has begun in a chunk. ``sender`` is the first run id of its workflow."""

    sender: str
    wait: Wait


class ClosedWait(msgspec.Struct, frozen=True, omit_defaults=True):
    """Notifies a playbook of a wait that has ended in a chunk. ``sender`` is the first run id of the chunk's workflow.
    ``returned`` is a signal that the wait did not take, ``request`` the id of the request that ended it, 0 without one.
    """

    sender: str
    wait_id: str
    is_answered: bool = False
    returned: Signal | None = None
    request: int = 0


class ForwardedAnswer(msgspec.Struct, frozen=True):
    """Forwards an answer from a playbook to these waits of a chunk."""

    wait_ids: tuple[str, ...]
    answer: Answer


def requester_refusal(by: str, reason: str) -> str | None:
    """Return why a request is refused whose requester's name or reason is too long; None if neither is."""
    if len(by) > MAX_NAME_CHARACTERS:
        return f"the name has {len(by):,} characters; at most {MAX_NAME_CHARACTERS} are allowed"
    if len(reason) > MAX_REASON_CHARACTERS:
        return f"the reason has {len(reason):,} characters; at most {MAX_REASON_CHARACTERS:,} are allowed"
    return None
