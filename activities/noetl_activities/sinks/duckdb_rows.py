"""The duckdb sink inside the DuckDB process: writes rows or runs statements, and commits them with their ledger entry
in one transaction.
"""

from __future__ import annotations

import json
from typing import Any

from noetl_activities.duckdb.calls import RunningCall
from noetl_activities.duckdb.driver import duckdb
from noetl_activities.duckdb.ledger_transaction import NON_TRANSACTIONAL, statement_kinds
from noetl_activities.duckdb.statements import run_statements
from noetl_activities.duckdb.wire import Store
from noetl_activities.errors import ConfigError
from noetl_activities.sinks import duckdb_ledger as ledger
from noetl_activities.sinks.data import ColumnTypes, Row, column_type, quote_identifier
from noetl_activities.sinks.ledger import StoreResult, is_time_to_prune
from noetl_activities.tool import Json

__all__ = ["store"]

_TYPES = ColumnTypes("boolean", "bigint", "double", "json", "varchar")


def store(connection: duckdb.DuckDBPyConnection, sink: Store, running_call: RunningCall) -> StoreResult:
    """Perform a sink unless its entry is in the ledger. Must not run concurrently with another sink of the file. Raises
    duckdb.Error; ConfigError for statements that cannot run in a transaction.
    """
    if sink.statements:
        _check_transactional(connection, list(dict.fromkeys(sink.statements)))
    ledger.create_if_missing(connection)
    connection.begin()
    try:
        store_result = _store_once(connection, sink, running_call)
        if is_time_to_prune():
            ledger.prune(connection)
        connection.commit()
    except BaseException:
        connection.rollback()
        raise
    return store_result


def _check_transactional(connection: duckdb.DuckDBPyConnection, statements: list[str]) -> None:
    if kinds := sorted(statement_kinds(connection, statements) & NON_TRANSACTIONAL):
        raise ConfigError(f"a sink stores in a transaction, in which {', '.join(kinds)} cannot run: use a task for it")


def _store_once(connection: duckdb.DuckDBPyConnection, sink: Store, running_call: RunningCall) -> StoreResult:
    entry, mode = sink.entry, sink.mode
    name = sink.table.replace('"', "") or None
    if entry.outcome is not None:
        existing_outcome = ledger.store_outcome(connection, entry.call_key, entry.repetition, entry.outcome)
        if existing_outcome is not None:
            return StoreResult(table=name, duplicate=True, is_in_ledger=True, existing_outcome=existing_outcome)
    if not ledger.add_entry(connection, entry.key, entry.repetition):
        return StoreResult(table=name, duplicate=True, is_in_ledger=True)
    if sink.statements:
        for text, values in zip(sink.statements, sink.values, strict=True):
            run_statements(connection, [text], [_to_parameter(value) for value in values], running_call)
        return StoreResult(is_in_ledger=True)
    if mode == "replace" and entry.replace_key and not ledger.add_entry(connection, entry.replace_key, 0):
        mode = "append"
    if sink.rows:
        _write_rows(connection, sink.table, sink.rows, mode, sink.keys)
    return StoreResult(len(sink.rows), name, is_in_ledger=True)


def _write_rows(connection: duckdb.DuckDBPyConnection, table: str, rows: list[Row], mode: str, keys: list[str]) -> None:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    names = ", ".join(map(quote_identifier, columns))
    types = ", ".join(f"{quote_identifier(name)} {column_type(rows[0].get(name), _TYPES)}" for name in columns)
    unique = f", primary key ({', '.join(map(quote_identifier, keys))})" if keys else ""
    connection.execute(f"create table if not exists {table} ({types}{unique})")
    if mode == "replace":
        connection.execute(f"delete from {table}")  # noqa: S608 - the name was checked
    verb = "insert or replace into" if mode in ("upsert", "merge") else "insert into"
    sql = f"{verb} {table} ({names}) values ({', '.join('?' * len(columns))})"
    connection.executemany(sql, [[_to_parameter(row.get(name)) for name in columns] for row in rows])


def _to_parameter(value: Json) -> Any:
    return json.dumps(value) if isinstance(value, dict | list) else value
