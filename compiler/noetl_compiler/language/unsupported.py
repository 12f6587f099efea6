"""Parts of a playbook that compile but cannot run yet, with the message for each, at compile time and before a run.

The descriptions of tool kinds declare which of those cannot run.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

__all__ = [
    "RESULT_REFERENCE",
    "Unsupported",
    "fetches_result",
    "unsupported_cursor",
]


class Unsupported(NamedTuple):
    """What cannot run, and what to write instead."""

    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.problem}: {self.remedy}"


def unsupported_cursor(database: str) -> Unsupported | None:
    """Return why rows of this kind of database cannot be claimed; None if they can (dev/decisions/0083)."""
    if database == "postgres":
        return None
    problem = _NO_CLAIMS.get(database, "a cursor claims rows of postgres only")
    return Unsupported(problem, "write kind: postgres, or read the rows in a step and loop over them")


_NO_CLAIMS: Mapping[str, str] = MappingProxyType(
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


def fetches_result(kind: str, *mappings: Mapping[str, object]) -> bool:
    """Whether a task fetches a result by its reference; ``mappings`` are its config and its input."""
    return kind == "artifact" and any("result_ref" in mapping for mapping in mappings)
