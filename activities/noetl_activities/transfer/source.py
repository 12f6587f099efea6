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

from noetl_activities.duckdb.tool import TOOL as DUCKDB
from noetl_activities.errors import ConfigError, FailedError
from noetl_activities.http.tool import TOOL as HTTP
from noetl_activities.outcome import Outcome
from noetl_activities.postgres.connect import (
    MAX_RECEIVED_BYTES,
    Connection,
    login_arguments,
    open_connection_by_arguments,
)
from noetl_activities.postgres.errors import SQL_ERRORS, sql_error
from noetl_activities.postgres.protocol import limit_received_bytes
from noetl_activities.postgres.transaction import transaction
from noetl_activities.postgres.values import bind_values, check_statement, postgres_text
from noetl_activities.rows import to_json
from noetl_activities.sinks.data import Row, quote_identifier, sink_rows, table_parts
from noetl_activities.sql import single_statement_params, statements_of
from noetl_activities.tool import Json, Request, ToolContext
from noetl_activities.transfer.call import TransferSide
from noetl_activities.transfer.snowflake import read_snowflake

__all__ = ["name_side_in_error", "read_batches"]

_READ_ONLY = "set transaction read only"


def read_batches(source: TransferSide, size: int, request: Request, context: ToolContext) -> AsyncGenerator[list[Row]]:
    """Yield batches of at most ``size`` rows. Raises FailedError with the error of the source, and ToolError."""
    if source.kind == "postgres":
        return _read_postgres(source, size, context)
    if source.kind == "snowflake":
        return _read_snowflake(source, size, context)
    return _read_whole(source, size, request, context)


def name_side_in_error(side: str, outcome: Outcome) -> Outcome:
    """Return the outcome with an error message that begins with the ``side`` of the transfer: source or target."""
    if outcome.error is None:
        return outcome
    error = msgspec.structs.replace(outcome.error, message=f"the {side} of the transfer: {outcome.error.message}")
    return msgspec.structs.replace(outcome, error=error)


# ---- sources that are read as a whole --------------------------------------------------------------------------------


async def _read_whole(
    source: TransferSide, size: int, request: Request, context: ToolContext
) -> AsyncGenerator[list[Row]]:
    rows = await (_read_http if source.kind == "http" else _read_duckdb)(source, request, context)
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


async def _read_http(source: TransferSide, request: Request, context: ToolContext) -> list[Row]:
    config = {name: value for name, value in source.config.items() if name != "data_path"}
    outcome = await HTTP.run(_tool_request("http", config, source.auth, request), context)
    if outcome.status == "error":
        raise FailedError(name_side_in_error("source", outcome))
    return sink_rows({}, _value_at(outcome.result["data"], source.config.get("data_path")))


def _value_at(data: Json, path: Json) -> Json:
    """Return the value at a path such as ``data.items``."""
    for name in str(path).split(".") if path else ():
        if not isinstance(data, dict) or name not in data:
            raise ConfigError(f"the response of the source has no {path!r:.100} (data_path)")
        data = cast("dict[str, Json]", data)[name]
    return data


async def _read_duckdb(source: TransferSide, request: Request, context: ToolContext) -> list[Row]:
    config = {name: value for name, value in source.config.items() if name != "table"}
    config["query"] = _query(source, "duckdb")
    outcome = await DUCKDB.run(_tool_request("duckdb", config, None, request), context)
    if outcome.status == "error":
        raise FailedError(name_side_in_error("source", outcome))
    return cast("list[Row]", outcome.result["rows"])


def _tool_request(kind: str, config: dict[str, Json], auth: Json, request: Request) -> Request:
    return msgspec.structs.replace(request, kind=kind, config=config, auth=auth, idempotency_header=None)


# ---- Postgres --------------------------------------------------------------------------------------------------------


async def _read_postgres(source: TransferSide, size: int, context: ToolContext) -> AsyncGenerator[list[Row]]:
    """Read in a read-only transaction: changes by the source would remain if the target were rolled back."""
    query = _query(source, "postgres")
    values = single_statement_params(source.config.get("params"), [query])
    try:
        arguments = await login_arguments(source.auth, source.config, context)
        async with open_connection_by_arguments(arguments) as connection, transaction(connection):
            await connection.execute(_READ_ONLY)
            async with aclosing(_fetch_batches(connection, query, values, size)) as batches:
                async for records in batches:
                    yield [_to_row(record) for record in records]
    except SQL_ERRORS as error:
        raise FailedError(name_side_in_error("source", sql_error(error))) from error


async def _fetch_batches(
    connection: Connection, query: str, values: Sequence[Json], size: int
) -> AsyncGenerator[Sequence[Any]]:
    with limit_received_bytes(connection, MAX_RECEIVED_BYTES):
        prepared_statement = await connection.prepare(check_statement(query))
    if not prepared_statement.get_attributes():
        raise ConfigError("the query of the source yields no rows: write a SELECT")
    cursor = await prepared_statement.cursor(*bind_values(prepared_statement, values))
    while True:
        with limit_received_bytes(connection, MAX_RECEIVED_BYTES):
            records = await cursor.fetch(size)
        if not records:
            return
        yield records


async def _read_snowflake(source: TransferSide, size: int, context: ToolContext) -> AsyncGenerator[list[Row]]:
    try:
        async with aclosing(read_snowflake(source, size, context, _to_json_cell)) as batches:
            async for batch in batches:
                yield batch
    except FailedError as error:
        raise FailedError(name_side_in_error("source", error.outcome)) from error


def _to_row(record: Any) -> Row:
    return {name: _to_json_cell(name, value) for name, value in record.items()}


def _to_json_cell(name: str, value: Any) -> Json:
    """Return the value as JSON without loss: numbers that JSON parsers would round become strings."""
    if isinstance(value, bytes):
        raise ConfigError(f"the column {name!r} of the source has bytes: select encode({name}, 'base64')")
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return to_json(value, postgres_text)


def _query(source: TransferSide, dialect: str) -> str:
    """Return the single statement of the source, or one that selects its table. Raises ConfigError."""
    table: Json = source.config.get("table")
    if table:
        return f"select * from {'.'.join(map(quote_identifier, table_parts(table)))}"  # noqa: S608 - the name is checked
    statements = statements_of(source.config, dialect)
    if len(statements) > 1:
        raise ConfigError("the source of a transfer is one statement")
    return statements[0]
