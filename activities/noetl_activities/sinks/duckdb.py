"""The duckdb sink: rows and their entry in the ledger commit in one transaction of the file (semantics.md 26a).

Only one process has the file open. Inside of it the sinks of a file take turns, so rivals never meet.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import duckdb

from noetl_activities.duckdb_file import database_of, in_thread, turn_of
from noetl_activities.errors import SinkError
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.sinks import duckdb_ledger as ledger
from noetl_activities.sinks.data import ColumnTypes, Row, column_type, keys_of, parts_of, quoted, rows_of
from noetl_activities.sinks.ledger import Entry, Stored, is_time_to_prune
from noetl_activities.tool import Json, ToolContext

__all__ = ["find_duckdb", "store_duckdb"]

T = TypeVar("T")
_TYPES = ColumnTypes("boolean", "bigint", "double", "json", "varchar")


async def store_duckdb(
    config: dict[str, Json], mode: str, entry: Entry, result: Json, auth: Json, context: ToolContext
) -> Stored:
    """Insert, append, upsert or replace rows of ``table``, which is made from the data when it is missing."""
    del auth, context
    rows, keys = rows_of(config, result), keys_of(config, mode)
    table = ".".join(f'"{part}"' for part in parts_of(config.get("table")))
    database = _database(config, entry.key)
    turn = turn_of(database)

    def work(connection: duckdb.DuckDBPyConnection) -> Stored:
        with turn:
            return _store(connection, table, rows, mode, keys, entry)

    return await _run(database, work)


async def find_duckdb(config: dict[str, Json], key: str, n: int) -> str | None:
    """The outcome that the ledger of this sink has for a call, None when there is none."""
    database = _database(config, key)
    if not await asyncio.to_thread(Path(database).exists):
        return None
    return await _run(database, lambda connection: ledger.find(connection, key, n))


def _database(config: dict[str, Json], key: str) -> str:
    """Every key begins with its execution."""
    return database_of(config, key.partition("/")[0])


async def _run(database: str, work: Callable[[duckdb.DuckDBPyConnection], T]) -> T:
    try:
        return await in_thread(database, work)
    except duckdb.Error as error:
        retryable = isinstance(error, duckdb.IOException | duckdb.TransactionException)
        info = ErrorInfo("sql", str(error), type(error).__name__, retryable)
        raise SinkError(Outcome("error", error=info)) from error


def _store(
    connection: duckdb.DuckDBPyConnection, table: str, rows: list[Row], mode: str, keys: list[str], entry: Entry
) -> Stored:
    ledger.ensure(connection)
    connection.begin()
    try:
        stored = _store_once(connection, table, rows, mode, keys, entry)
        if is_time_to_prune():
            ledger.prune(connection)
        connection.commit()
    except BaseException:
        connection.rollback()
        raise
    return stored


def _store_once(
    connection: duckdb.DuckDBPyConnection, table: str, rows: list[Row], mode: str, keys: list[str], entry: Entry
) -> Stored:
    name = table.replace('"', "")
    if entry.outcome is not None:
        rival = ledger.keep(connection, entry.call, entry.n, entry.outcome)
        if rival is not None:
            return Stored(table=name, duplicate=True, is_kept=True, rival=rival)
    if not ledger.claim(connection, entry.key, entry.n):
        return Stored(table=name, duplicate=True, is_kept=True)
    if mode == "replace" and entry.once and not ledger.claim(connection, entry.once, 0):
        mode = "append"
    if rows:
        _write(connection, table, rows, mode, keys)
    return Stored(len(rows), name, is_kept=True)


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
