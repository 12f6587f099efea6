"""Parts of a playbook that compile and cannot run yet: the message for each, at compile time and before a run.

Kinds of tools are not among them: whether one can run is part of its description, and of what is installed.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "CURSOR",
    "CURSORS",
    "REMOTE_CODE",
    "Unsupported",
]


class Unsupported(NamedTuple):
    """What cannot run, and what to write instead."""

    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.problem}: {self.remedy}"


CURSOR = Unsupported("a cursor claims rows of postgres only", "write kind: postgres, or loop over a collection")
CURSORS = frozenset({"postgres"})
"""The databases that rows can be claimed from."""

REMOTE_CODE = Unsupported("code from this source is not supported", "fetch it from a file or by http")
