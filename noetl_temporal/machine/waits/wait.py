"""A wait that is open, and what ends it: a signal, an answer, or the decision about a held step."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec.structs import replace

from noetl_compiler.graph import Json

__all__ = ["Answer", "HeldDecision", "Signal", "Wait", "timer_id"]


class Signal(msgspec.Struct, frozen=True, omit_defaults=True):
    """A signal from outside the run. Without a ``key`` it is for the oldest wait. ``request_id`` is that of the request
    that sent it, once the run has accepted it.
    """

    name: str
    data: Json = None
    key: str | None = None
    request_id: int = 0


class HeldDecision(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is done with a held step: another run of it, or ``data`` as its result."""

    action: Literal["retry", "skip"]
    data: Json = None
    by: str = ""
    reason: str = ""


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What ends a wait: the ``result`` of its task, and the ``signal``, if it was one; or the ``decision`` about a held
    step.
    """

    result: Json = None
    signal: Signal | None = None
    decision: HeldDecision | None = None


class Wait(msgspec.Struct, frozen=True, omit_defaults=True):
    """A task that waits, a call that waits to be retried (``kind`` retry), or a failed step run that is held.

    ``id`` is unique in the workflow, ``run`` the run or iteration that waits. ``since`` and ``due`` are in milliseconds
    since the epoch. At ``due``, unless it is 0, the wait ends: successfully if it ``succeeds_when_due``, else as timed
    out after ``timeout`` seconds. ``event_id`` is that of its first event. The playbook's machine also has the waits of
    its loops, with the id of their ``chunk``. ``message`` is that of an approval, or the failure of a held step, which
    has no task. ``schema`` is that of the signal's payload.
    """

    id: str
    kind: Literal["time", "signal", "approval", "retry", "held"]
    run: str
    step: str
    task: str
    since: int
    due: int = 0
    succeeds_when_due: bool = False
    timeout: float | None = None
    iteration: int | None = None
    signal: str = ""
    key: str | None = None
    message: str = ""
    form: dict[str, Json] = {}
    approvers: tuple[str, ...] = ()
    schema: dict[str, Json] = {}
    event_id: int = 0
    chunk: str = ""

    def qualified(self, chunk_id: str) -> Wait:
        """Return the wait of a chunk with the id that it has in the playbook's machine, which begins with that of the
        chunk.
        """
        return replace(self, id=f"{chunk_id} {self.id}", chunk=chunk_id)

    @property
    def age(self) -> tuple[int, int]:
        """The key that sorts waits from the oldest on, as those of a loop are reported in any order."""
        return self.since, self.event_id

    @property
    def id_in_chunk(self) -> str:
        """The id in the chunk's machine."""
        return self.id.removeprefix(f"{self.chunk} ")

    @property
    def name(self) -> str:
        """The name for users: ``review``, or ``review[3]`` for the loop item with index 3."""
        return self.step if self.iteration is None else f"{self.step}[{self.iteration}]"


def timer_id(wait_id: str) -> str:
    """Return the id of the timer that ends a wait."""
    return f"{wait_id}:timer"
