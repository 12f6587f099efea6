"""The postgres sink: exactly once (semantics.md 26).

The key and the rows commit in one transaction. Whoever comes second with the same key, be it a retry after a crash
between commit and report or a rival, waits for the first at the key's row and then finds it taken: nothing is written
again.
"""

from __future__ import annotations

import asyncpg

from noetl_activities.errors import SinkError
from noetl_activities.postgres_connect import Connection, connected, sql_error
from noetl_activities.sinks import Stored
from noetl_activities.sinks.data import keys_of, parts_of, rows_of
from noetl_activities.sinks.postgres_statement import run_statements
from noetl_activities.sinks.postgres_table import Table
from noetl_activities.sql import FIELDS, statements_of
from noetl_activities.tool import Json, ToolContext

__all__ = ["store_postgres"]

_KEYS = """
create schema if not exists noetl;
create table if not exists noetl.sink_key (key text primary key, stored_at timestamptz not null default now());
"""


async def store_postgres(
    config: dict[str, Json], mode: str, key: str, result: Json, auth: Json, context: ToolContext
) -> Stored:
    """Insert, append, upsert, replace or merge rows of ``table``, or run the sink's own ``statement``."""
    try:
        async with connected(auth, config, context) as connection:
            await _ensure_keys(connection)
            async with connection.transaction():
                if not await _claim(connection, key):
                    return Stored(table=_table_name(config), duplicate=True)
                return await _write(connection, config, mode, result)
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
        raise SinkError(sql_error(error)) from error


def _table_name(config: dict[str, Json]) -> str | None:
    table = config.get("table")
    return None if table is None else str(table)


async def _ensure_keys(connection: Connection) -> None:
    """Two sinks may make the table at once; the loser's error means that it is there."""
    if await connection.fetchval("select to_regclass('noetl.sink_key')") is None:
        try:
            await connection.execute(_KEYS)
        except (asyncpg.UniqueViolationError, asyncpg.DuplicateObjectError, asyncpg.DuplicateTableError):
            return


async def _claim(connection: Connection, key: str) -> bool:
    sql = "insert into noetl.sink_key (key) values ($1) on conflict do nothing returning key"
    return await connection.fetchval(sql, key) is not None


async def _write(connection: Connection, config: dict[str, Json], mode: str, result: Json) -> Stored:
    rows = rows_of(config, result)
    if any(config.get(name) or config.get(f"{name}_b64") for name in FIELDS):
        return Stored(await run_statements(connection, statements_of(config, "postgres"), config.get("params"), rows))
    table = await Table.find(connection, parts_of(config.get("table")), rows if config.get("create") is True else [])
    return Stored(await table.write(rows, mode, keys_of(config, mode)), table.name)
