"""Sinks: store the result of a tool in the same activity (semantics.md 26).

``store`` writes. ``find_outcome`` looks up the outcome of a call in the ledger, which is in the same database as the
rows. The kinds in ``KINDS`` have transactions, so a ledger entry is committed together with the rows; other kinds call
a tool (tool_call.py).
"""

from __future__ import annotations

from typing import Protocol

from noetl_activities.errors import ConfigError
from noetl_activities.sinks.ledger import Entry, StoreResult
from noetl_activities.tool import Json, ToolContext
from noetl_compiler.language.sinks import TOOL_KINDS, TRANSACTIONAL_KINDS

__all__ = ["DATABASE_FIELDS", "KINDS", "Entry", "SinkKind", "Sinks", "StoreResult", "find_outcome", "store"]

KINDS = tuple(sorted(TRANSACTIONAL_KINDS))

DATABASE_FIELDS = {"duckdb": ("database",), "postgres": ()}
"""The fields that determine the database of a sink, together with ``auth``."""


class SinkKind(Protocol):
    """Performs sinks of one kind."""

    async def __call__(
        self, config: dict[str, Json], mode: str, entry: Entry, result: Json, auth: Json, context: ToolContext
    ) -> StoreResult: ...


class Sinks(Protocol):
    """Performs sinks. This module performs them one by one, batches.SinkBatches in batches."""

    async def store(
        self,
        kind: str,
        config: dict[str, Json],
        mode: str,
        entry: Entry,
        result: Json,
        auth: Json,
        context: ToolContext,
    ) -> StoreResult:
        """See ``store`` of this module."""
        ...

    async def find_outcome(
        self, kind: str, config: dict[str, Json], auth: Json, key: str, repetition: int, context: ToolContext
    ) -> str | None:
        """See ``find_outcome`` of this module."""
        ...


async def store(
    kind: str, config: dict[str, Json], mode: str, entry: Entry, result: Json, auth: Json, context: ToolContext
) -> StoreResult:
    """Store ``result``, or the data in ``config``. Raises ToolError; SinkError for errors of a driver."""
    from noetl_activities.sinks.duckdb import store_duckdb
    from noetl_activities.sinks.postgres import store_postgres

    if kind in TOOL_KINDS:
        from noetl_activities.sinks.tool_call import call_tool

        return await call_tool(kind, config, entry, result, auth, context)
    kinds: dict[str, SinkKind] = {"postgres": store_postgres, "duckdb": store_duckdb}
    if kind not in kinds:
        raise ConfigError(f"unknown sink {kind!r}: there are {', '.join(sorted({*kinds, *TOOL_KINDS}))}")
    return await kinds[kind](config, mode, entry, result, auth, context)


async def find_outcome(
    kind: str, config: dict[str, Json], auth: Json, key: str, repetition: int, context: ToolContext
) -> str | None:
    """Return the JSON of the outcome that a call has stored under ``key`` and ``repetition``; None if there is none.

    ``config`` needs only the fields in DATABASE_FIELDS. Raises ToolError, SinkError.
    """
    from noetl_activities.sinks.duckdb import find_duckdb
    from noetl_activities.sinks.postgres import find_postgres

    if kind == "postgres":
        return await find_postgres(config, auth, key, repetition, context)
    return await find_duckdb(config, key, repetition) if kind == "duckdb" else None
