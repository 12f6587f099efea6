"""Parts of a playbook that compile and cannot run yet: the message for each, at compile time and before a run.

Kinds of tools are not among them: whether one can run is part of its description, and of what is installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

__all__ = [
    "RESULT_REFERENCE",
    "Unsupported",
    "cursor_over",
    "fetches_result",
]


class Unsupported(NamedTuple):
    """What cannot run, and what to write instead."""

    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.problem}: {self.remedy}"


def cursor_over(database: str) -> Unsupported | None:
    """Why rows of this kind of database cannot be claimed; None if they can (dev/decisions/0083)."""
    if database == "postgres":
        return None
    problem = _UNCLAIMED.get(database, "a cursor claims rows of postgres only")
    return Unsupported(problem, "write kind: postgres, or read the rows in a step and loop over them")


_UNCLAIMED: Mapping[str, str] = MappingProxyType(
    {
        "duckdb": "a cursor cannot claim rows of duckdb: only one process at a time can open the file, and rows of a "
        "worker that hangs would not come back",
        "snowflake": "a cursor cannot claim rows of snowflake: its UPDATE does not return the rows that it changes",
    }
)
RESULT_REFERENCE = Unsupported(
    "a result has no reference by which an artifact task could fetch it",
    "read the result itself, such as {{ start }}, or put it to a uri and get it from there",
)


def fetches_result(kind: str, *names: Mapping[str, object]) -> bool:
    """Whether a task fetches a result by its reference; ``names`` are its fields, and those bound for it."""
    return kind == "artifact" and any("result_ref" in one for one in names)
