"""Parts of a playbook that compile and cannot run yet: the message for each, at compile time and before a run.

Kinds of tools are not among them: whether one can run is part of its description, and of what is installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = [
    "CURSOR",
    "CURSORS",
    "CURSOR_REGION",
    "HELD_REGION",
    "RESULT_REFERENCE",
    "Unsupported",
    "fetches_result",
]


class Unsupported(NamedTuple):
    """What cannot run, and what to write instead."""

    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.problem}: {self.remedy}"


CURSOR = Unsupported("a cursor claims rows of postgres only", "write kind: postgres, or loop over a collection")
CURSOR_REGION = Unsupported(
    "a loop over a cursor cannot span several steps, or be inside a loop that does", "give the loop a task of its own"
)
CURSORS = frozenset({"postgres"})
"""The databases that rows can be claimed from."""

HELD_REGION = Unsupported(
    "a step inside of a loop over several steps cannot be held", "write on_failure: fail in the step"
)
RESULT_REFERENCE = Unsupported(
    "a result has no reference by which an artifact task could fetch it",
    "read the result itself, such as {{ start }}, or put it to a uri and get it from there",
)


def fetches_result(kind: str, *names: Mapping[str, object]) -> bool:
    """Whether a task fetches a result by its reference; ``names`` are its fields, and those bound for it."""
    return kind == "artifact" and any("result_ref" in one for one in names)
