"""The failed steps of a run that wait for a person, its own and those inside its loops (semantics.md 42).

A held run of a step is one of the waits of its machine: a chunk of a loop reports it to the playbook, and receives the
decision about it, as it does for any other wait.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from noetl_temporal.machine.waits.wait import Wait

__all__ = ["HeldStep", "held_steps", "unique_names"]


class HeldStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """A run of a step that is held because of the failure in ``message``. ``due`` is when it fails, in milliseconds
    since the epoch; ``iteration`` is the index of the loop item that it belongs to, if any.
    """

    run: str
    step: str
    message: str
    due: int
    iteration: int | None = None

    @property
    def name(self) -> str:
        """The name for users: ``load``, or ``load[3]`` for the loop item with index 3."""
        return self.step if self.iteration is None else f"{self.step}[{self.iteration}]"


def held_steps(waits: Iterable[Wait]) -> list[HeldStep]:
    """Return the held steps among the waits of a run, from the oldest on."""
    held_waits = sorted((wait for wait in waits if wait.kind == "held"), key=lambda wait: wait.age)
    return [HeldStep(wait.run, wait.step, wait.message, wait.due, wait.iteration) for wait in held_waits]


def unique_names(held: Sequence[HeldStep]) -> list[str]:
    """Return the name of each held step for users; the id of its run if several steps have that name."""
    counts = Counter(step.name for step in held)
    return [step.name if counts[step.name] == 1 else step.run for step in held]
