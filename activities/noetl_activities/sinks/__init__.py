"""Sinks: store the result of a tool in the same activity (semantics.md 26).

A sink writes to a database (``KINDS``), which commits the rows and their ledger entry in one transaction, or calls a
tool (tool_call.py), which has no transaction. ``store`` performs a sink. ``find_outcome`` looks up the outcome of a
call in the ledger of a sink's database.
"""

from __future__ import annotations

from typing import Protocol

from noetl_activities.errors import ConfigError
from noetl_activities.sinks.ledger import Entry, StoreResult
from noetl_activities.sinks.requests import OutcomeLookup, SinkRequest
from noetl_activities.tool import ToolContext
from noetl_compiler.language.sinks import TOOL_KINDS, TRANSACTIONAL_KINDS

__all__ = [
    "DATABASE_FIELDS",
    "KINDS",
    "Entry",
    "OutcomeLookup",
    "SinkRequest",
    "Sinks",
    "StoreResult",
    "find_outcome",
    "store",
]

KINDS = tuple(sorted(TRANSACTIONAL_KINDS))
"""The databases that a sink can write to."""

DATABASE_FIELDS = {"duckdb": ("database",), "postgres": ()}
"""The fields that determine the database of a sink, together with ``auth``."""


class Sinks(Protocol):
    """Performs sinks. This module performs them one by one, batches.SinkBatches in batches."""

    async def store(self, request: SinkRequest, context: ToolContext) -> StoreResult:
        """See ``store`` of this module."""
        ...

    async def find_outcome(self, lookup: OutcomeLookup, context: ToolContext) -> str | None:
        """See ``find_outcome`` of this module."""
        ...


async def store(request: SinkRequest, context: ToolContext) -> StoreResult:
    """Store the data of a call. Raises ToolError; SinkError for errors of a driver."""
    if request.kind == "postgres":
        from noetl_activities.sinks.postgres import store_postgres

        return await store_postgres(request, context)
    if request.kind == "duckdb":
        from noetl_activities.sinks.duckdb import store_duckdb

        return await store_duckdb(request)
    if request.kind in TOOL_KINDS:
        from noetl_activities.sinks.tool_call import call_tool

        return await call_tool(request, context)
    raise ConfigError(f"unknown sink {request.kind!r}: there are {', '.join(sorted({*KINDS, *TOOL_KINDS}))}")


async def find_outcome(lookup: OutcomeLookup, context: ToolContext) -> str | None:
    """Return the JSON of the outcome that a call has stored; None if there is none. Raises ToolError, SinkError."""
    if lookup.kind == "postgres":
        from noetl_activities.sinks.postgres import find_postgres

        return await find_postgres(lookup, context)
    if lookup.kind == "duckdb":
        from noetl_activities.sinks.duckdb import find_duckdb

        return await find_duckdb(lookup)
    return None
