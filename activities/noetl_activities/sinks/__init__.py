"""Sinks: a tool's result stored in the tool's own activity (semantics.md 26).

``store`` writes, ``find`` asks the ledger beside the rows whether a call has stored its outcome already. Kinds that are
in ``KINDS`` have a transaction, so that an entry of the ledger and the rows commit together; others call a tool
(tool_call.py).
"""

from __future__ import annotations

from typing import Protocol

from noetl_activities.errors import ConfigError
from noetl_activities.sinks.ledger import Entry, Stored
from noetl_activities.tool import Json, ToolContext

__all__ = ["KINDS", "PLACES", "Entry", "SinkKind", "Sinks", "Stored", "find", "store"]

KINDS = ("duckdb", "postgres")

PLACES = {"duckdb": ("database",), "postgres": ()}
"""The fields that say, beside ``auth``, which database a sink of that kind stores in."""


class SinkKind(Protocol):
    """One kind of sink."""

    async def __call__(
        self, config: dict[str, Json], mode: str, entry: Entry, result: Json, auth: Json, context: ToolContext
    ) -> Stored: ...


class Sinks(Protocol):
    """Who performs sinks: this module, one by one, or batches.SinkBatches, together what can be stored together."""

    async def store(
        self,
        kind: str,
        config: dict[str, Json],
        mode: str,
        entry: Entry,
        result: Json,
        auth: Json,
        context: ToolContext,
    ) -> Stored:
        """See ``store`` of this module."""
        ...

    async def find(
        self, kind: str, config: dict[str, Json], auth: Json, key: str, n: int, context: ToolContext
    ) -> str | None:
        """See ``find`` of this module."""
        ...


async def store(
    kind: str, config: dict[str, Json], mode: str, entry: Entry, result: Json, auth: Json, context: ToolContext
) -> Stored:
    """Store ``result`` (or what ``config`` names instead). Raises ToolError; a driver's own error is a SinkError."""
    from noetl_activities.sinks.duckdb import store_duckdb
    from noetl_activities.sinks.postgres import store_postgres
    from noetl_compiler.language.sinks import CALLS  # here, as DuckDB's processes import this package and need it not

    if kind in CALLS:
        from noetl_activities.sinks.tool_call import call_tool

        return await call_tool(kind, config, entry, result, auth, context)
    kinds: dict[str, SinkKind] = {"postgres": store_postgres, "duckdb": store_duckdb}
    if kind not in kinds:
        raise ConfigError(f"unknown sink {kind!r}: there are {', '.join(sorted({*kinds, *CALLS}))}")
    return await kinds[kind](config, mode, entry, result, auth, context)


async def find(kind: str, config: dict[str, Json], auth: Json, key: str, n: int, context: ToolContext) -> str | None:
    """The JSON of the outcome that a call has stored under ``key`` and ``n``; None when there is none. ``config`` needs
    the fields of PLACES only. Raises ToolError, SinkError.
    """
    from noetl_activities.sinks.duckdb import find_duckdb
    from noetl_activities.sinks.postgres import find_postgres

    if kind == "postgres":
        return await find_postgres(config, auth, key, n, context)
    return await find_duckdb(config, key, n) if kind == "duckdb" else None
