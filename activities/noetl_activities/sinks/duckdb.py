"""The duckdb sink: rows and the key commit in one transaction of the file, so it is exactly once for each file."""

from __future__ import annotations

import json
from typing import Any

import duckdb

from noetl_activities.duckdb_file import database_of, in_thread
from noetl_activities.errors import SinkError
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.sinks import Stored
from noetl_activities.sinks.data import ColumnTypes, Row, column_type, keys_of, parts_of, quoted, rows_of
from noetl_activities.tool import Json, ToolContext

__all__ = ["store_duckdb"]

_TYPES = ColumnTypes("boolean", "bigint", "double", "json", "varchar")


async def store_duckdb(
    config: dict[str, Json], mode: str, key: str, result: Json, auth: Json, context: ToolContext
) -> Stored:
    """Insert, append, upsert or replace rows of ``table``, which is made from the data when it is missing."""
    del auth, context
    rows, keys = rows_of(config, result), keys_of(config, mode)
    table = ".".join(f'"{part}"' for part in parts_of(config.get("table")))
    database = database_of(config, key.partition("/")[0])
    try:
        return await in_thread(database, lambda connection: _store(connection, table, rows, mode, keys, key))
    except duckdb.Error as error:
        retryable = isinstance(error, duckdb.IOException | duckdb.TransactionException)
        info = ErrorInfo("sql", str(error), type(error).__name__, retryable)
        raise SinkError(Outcome("error", error=info)) from error


def _store(
    connection: duckdb.DuckDBPyConnection, table: str, rows: list[Row], mode: str, keys: list[str], key: str
) -> Stored:
    name = table.replace('"', "")
    connection.execute("create table if not exists noetl_sink_key (key varchar primary key)")
    connection.begin()
    try:
        if connection.execute("select 1 from noetl_sink_key where key = ?", [key]).fetchone():
            connection.rollback()
            return Stored(table=name, duplicate=True)
        connection.execute("insert into noetl_sink_key values (?)", [key])
        if rows:
            _write(connection, table, rows, mode, keys)
        connection.commit()
    except BaseException:
        connection.rollback()
        raise
    return Stored(len(rows), name)


def _write(connection: duckdb.DuckDBPyConnection, table: str, rows: list[Row], mode: str, keys: list[str]) -> None:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    names = ", ".join(map(quoted, columns))
    types = ", ".join(f"{quoted(name)} {column_type(rows[0].get(name), _TYPES)}" for name in columns)
    unique = f", primary key ({', '.join(map(quoted, keys))})" if keys else ""
    connection.execute(f"create table if not exists {table} ({types}{unique})")
    if mode == "replace":
        connection.execute(f"delete from {table}")  # noqa: S608 - the name was checked
    verb = "insert or replace into" if mode in ("upsert", "merge") else "insert into"
    sql = f"{verb} {table} ({names}) values ({', '.join('?' * len(columns))})"
    connection.executemany(sql, [[_fit(row.get(name)) for name in columns] for row in rows])


def _fit(value: Json) -> Any:
    return json.dumps(value) if isinstance(value, dict | list) else value
