"""A wait that is open, a signal that was sent, and the answer that ends a wait."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec.structs import replace

from noetl_compiler.graph import Json

__all__ = ["Answer", "Signal", "Wait", "timer_id"]


class Signal(msgspec.Struct, frozen=True, omit_defaults=True):
    """A signal as a person or a program sent it. Without a ``key`` it is for whichever wait is the oldest."""

    name: str
    data: Json = None
    key: str | None = None


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What ends a wait well: the ``result`` of its task, and the ``signal`` that it was, if it was one."""

    result: Json = None
    signal: Signal | None = None


class Wait(msgspec.Struct, frozen=True, omit_defaults=True):
    """A task that waits, or a call that waits to be retried (``kind`` retry).

    ``id`` is unique in the workflow, ``run`` the run or iteration that waits. ``since`` and ``due`` are milliseconds
    since the epoch: at ``due``, where it is not 0, the wait ends; well where it ``ends_well`` then, else as timed out
    after ``timeout`` seconds. ``event_id`` is that of its first event. The playbook's machine has the waits of its
    loops as well: those have the id of their ``chunk``.
    """

    id: str
    kind: Literal["time", "signal", "approval", "retry"]
    run: str
    step: str
    task: str
    since: int
    due: int = 0
    ends_well: bool = False
    timeout: float | None = None
    iteration: int | None = None
    signal: str = ""
    key: str | None = None
    message: str = ""
    form: dict[str, Json] = {}
    approvers: tuple[str, ...] = ()
    event_id: int = 0
    chunk: str = ""

    def seen_from_outside(self, chunk_id: str) -> Wait:
        """The same for the playbook's machine."""
        return replace(self, id=f"{chunk_id} {self.id}", chunk=chunk_id)

    @property
    def id_in_chunk(self) -> str:
        """The id that the chunk's machine knows it by."""
        return self.id.removeprefix(f"{self.chunk} ")

    @property
    def name(self) -> str:
        """How people name it: ``review``, ``review[3]`` for the item with index 3 of a loop."""
        return self.step if self.iteration is None else f"{self.step}[{self.iteration}]"


def timer_id(wait_id: str) -> str:
    """Of the timer that ends a wait."""
    return f"{wait_id}:timer"
