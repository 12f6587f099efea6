"""Parts of a playbook that compile and cannot run yet: what is told of each, at compile time and before a run.

Kinds of tools are not among them: whether one can run is part of its description, and of what is installed.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["CIRCUIT", "CURSOR", "FRAMED_CALL", "REGION", "REMOTE_CODE", "Unsupported"]


class Unsupported(NamedTuple):
    """What cannot run, and what to write instead."""

    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.problem}: {self.remedy}"


CURSOR = Unsupported("cursor loops are not supported yet", "loop over a collection")
REGION = Unsupported("loops over several steps are not supported yet", "give the loop a task of its own")
FRAMED_CALL = Unsupported("a frame cannot call playbooks", "remove the frame")
CIRCUIT = Unsupported("circuit breakers are not supported yet", "remove it")
REMOTE_CODE = Unsupported("code from this source is not supported", "fetch it from a file or by http")
