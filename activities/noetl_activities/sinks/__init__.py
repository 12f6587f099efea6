"""Sinks: a tool's result stored in the tool's own activity (semantics.md 26).

``store`` is the one entrance. ``key`` identifies the call over attempts, workers and replays; a sink that has seen it
before writes nothing again and says so.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from noetl_activities.errors import ConfigError
from noetl_activities.tool import Json, ToolContext

__all__ = ["SinkKind", "Stored", "store"]


class Stored(msgspec.Struct, frozen=True):
    """``rows`` written; none when ``duplicate``."""

    rows: int = 0
    table: str | None = None
    duplicate: bool = False


class SinkKind(Protocol):
    """One kind of sink."""

    async def __call__(
        self, config: dict[str, Json], mode: str, key: str, result: Json, auth: Json, context: ToolContext
    ) -> Stored: ...


async def store(
    kind: str, config: dict[str, Json], mode: str, key: str, result: Json, auth: Json, context: ToolContext
) -> Stored:
    """Store ``result`` (or what ``config`` names instead). Raises ToolError; a driver's own error is a SinkError."""
    from noetl_activities.sinks.duckdb import store_duckdb
    from noetl_activities.sinks.postgres import store_postgres

    kinds: dict[str, SinkKind] = {"postgres": store_postgres, "duckdb": store_duckdb}
    if kind not in kinds:
        raise ConfigError(f"no sink {kind!r}: there are {', '.join(sorted(kinds))}")
    return await kinds[kind](config, mode, key, result, auth, context)
