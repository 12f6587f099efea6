"""Reads the rows of a transfer's source in batches.

Postgres is read through a cursor, so a table may be larger than the memory. The response of a server and the result of
DuckDB are read as a whole, within the limits of their tools.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, cast

import msgspec

from noetl_activities.duckdb import TOOL as DUCKDB
from noetl_activities.errors import ConfigError, FailedError
from noetl_activities.http import TOOL as HTTP
from noetl_activities.outcome import Outcome
from noetl_activities.postgres_connect import MAX_RECEIVED_BYTES, Connection, connected_to, login
from noetl_activities.postgres_errors import SQL_ERRORS, sql_error
from noetl_activities.postgres_protocol import receiving_at_most
from noetl_activities.postgres_transaction import transaction
from noetl_activities.postgres_values import bound, sendable, text_of
from noetl_activities.rows import json_of
from noetl_activities.sinks.data import Row, parts_of, quoted, rows_of
from noetl_activities.sql import params_of, statements_of
from noetl_activities.tool import Json, Request, ToolContext
from noetl_activities.transfer_call import TransferEnd
from noetl_activities.transfer_snowflake import read_snowflake

__all__ = ["entry_fields", "read_batches"]

_READ_ONLY = "set transaction read only"


def read_batches(source: TransferEnd, size: int, request: Request, context: ToolContext) -> AsyncGenerator[list[Row]]:
    """Batches of at most ``size`` rows. Raises FailedError with the error of the source, and ToolError."""
    if source.kind == "postgres":
        return _postgres(source, size, context)
    if source.kind == "snowflake":
        return _snowflake(source, size, context)
    return _whole(source, size, request, context)


def entry_fields(end: str, outcome: Outcome) -> Outcome:
    """Return the outcome with an error message that names the end of the transfer, source or target."""
    if outcome.error is None:
        return outcome
    error = msgspec.structs.replace(outcome.error, message=f"the {end} of the transfer: {outcome.error.message}")
    return msgspec.structs.replace(outcome, error=error)


# ---- what comes as a whole -------------------------------------------------------------------------------------------


async def _whole(source: TransferEnd, size: int, request: Request, context: ToolContext) -> AsyncGenerator[list[Row]]:
    rows = await (_http if source.kind == "http" else _duckdb)(source, request, context)
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


async def _http(source: TransferEnd, request: Request, context: ToolContext) -> list[Row]:
    config = {name: value for name, value in source.config.items() if name != "data_path"}
    outcome = await HTTP.run(_called("http", config, source.auth, request), context)
    if outcome.status == "error":
        raise FailedError(entry_fields("source", outcome))
    return rows_of({}, _part(outcome.result["data"], source.config.get("data_path")))


def _part(data: Json, path: Json) -> Json:
    """Return the value at a path such as ``data.items``."""
    for name in str(path).split(".") if path else ():
        if not isinstance(data, dict) or name not in data:
            raise ConfigError(f"the response of the source has no {path!r:.100} (data_path)")
        data = cast("dict[str, Json]", data)[name]
    return data


async def _duckdb(source: TransferEnd, request: Request, context: ToolContext) -> list[Row]:
    config = {name: value for name, value in source.config.items() if name != "table"}
    config["query"] = _query(source, "duckdb")
    outcome = await DUCKDB.run(_called("duckdb", config, None, request), context)
    if outcome.status == "error":
        raise FailedError(entry_fields("source", outcome))
    return cast("list[Row]", outcome.result["rows"])


def _called(kind: str, config: dict[str, Json], auth: Json, request: Request) -> Request:
    return msgspec.structs.replace(request, kind=kind, config=config, auth=auth, idempotency_key=None)


# ---- Postgres --------------------------------------------------------------------------------------------------------


async def _postgres(source: TransferEnd, size: int, context: ToolContext) -> AsyncGenerator[list[Row]]:
    """Read in a read-only transaction: changes by the source would remain if the target is rolled back."""
    query = _query(source, "postgres")
    values = params_of(source.config.get("params"), [query])
    try:
        arguments = await login(source.auth, source.config, context)
        async with connected_to(arguments) as connection, transaction(connection):
            await connection.execute(_READ_ONLY)
            async with aclosing(_fetched(connection, query, values, size)) as batches:
                async for records in batches:
                    yield [_row(record) for record in records]
    except SQL_ERRORS as error:
        raise FailedError(entry_fields("source", sql_error(error))) from error


async def _fetched(
    connection: Connection, query: str, values: Sequence[Json], size: int
) -> AsyncGenerator[Sequence[Any]]:
    with receiving_at_most(connection, MAX_RECEIVED_BYTES):
        prepared = await connection.prepare(sendable(query))
    if not prepared.get_attributes():
        raise ConfigError("the query of the source yields no rows: write a SELECT")
    cursor = await prepared.cursor(*bound(prepared, values))
    while True:
        with receiving_at_most(connection, MAX_RECEIVED_BYTES):
            records = await cursor.fetch(size)
        if not records:
            return
        yield records


async def _snowflake(source: TransferEnd, size: int, context: ToolContext) -> AsyncGenerator[list[Row]]:
    try:
        async with aclosing(read_snowflake(source, size, context, _cell)) as batches:
            async for batch in batches:
                yield batch
    except FailedError as error:
        raise FailedError(entry_fields("source", error.outcome)) from error


def _row(record: Any) -> Row:
    return {name: _cell(name, value) for name, value in record.items()}


def _cell(name: str, value: Any) -> Json:
    """Return the value as JSON without loss: numbers that JSON readers would round become text."""
    if isinstance(value, bytes):
        raise ConfigError(f"the column {name!r} of the source has bytes: select encode({name}, 'base64')")
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return json_of(value, text_of)


def _query(source: TransferEnd, dialect: str) -> str:
    """Return the single statement of the source, or one that selects its table. Raises ConfigError."""
    table: Json = source.config.get("table")
    if table:
        return f"select * from {'.'.join(map(quoted, parts_of(table)))}"  # noqa: S608 - the name is checked
    statements = statements_of(source.config, dialect)
    if len(statements) > 1:
        raise ConfigError("the source of a transfer is one statement")
    return statements[0]
