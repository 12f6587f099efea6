"""Snowflake as the source and as the target of a transfer."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

from noetl_activities.errors import ConfigError
from noetl_activities.sinks.data import Row, sink_rows, table_parts
from noetl_activities.snowflake.session import Session, open_session
from noetl_activities.sql import has_statement, single_statement_params, statements_of
from noetl_activities.tool import Json, ToolContext
from noetl_activities.transfer.call import TransferCall, TransferSide

__all__ = ["read_snowflake", "store_in_snowflake"]

_JSON_TYPE_CODES = frozenset({5, 9, 10})
"""The type codes of the driver for VARIANT, OBJECT and ARRAY, whose values it returns as JSON."""


async def read_snowflake(
    source: TransferSide, size: int, context: ToolContext, cell: Callable[[str, Any], Json]
) -> AsyncGenerator[list[Row]]:
    """Yield batches of at most ``size`` rows. ``cell`` converts a value to JSON. Raises FailedError and ToolError."""
    query = _query(source)
    params = single_statement_params(source.config.get("params"), [query])
    async with open_session(source.auth, source.config, context) as snowflake:
        cursor = await snowflake.call(lambda connection: connection.cursor().execute(query, params or None))
        columns = [(str(column[0]), column[1] in _JSON_TYPE_CODES) for column in cursor.description or ()]
        while records := await snowflake.call(lambda _: cursor.fetchmany(size)):
            yield [_row(columns, record, cell) for record in records]


def _query(source: TransferSide) -> str:
    if source.config.get("table"):
        return f"select * from {'.'.join(table_parts(source.config['table']))}"  # noqa: S608 - the name is checked
    statements = statements_of(source.config, "snowflake")
    if len(statements) > 1:
        raise ConfigError("the source of a transfer is one statement")
    return statements[0]


def _row(columns: Sequence[tuple[str, bool]], record: Sequence[Any], cell: Callable[[str, Any], Json]) -> Row:
    pairs = zip(columns, record, strict=True)
    return {
        name: json.loads(value) if is_document and isinstance(value, str) else cell(name, value)
        for (name, is_document), value in pairs
    }


async def store_in_snowflake(
    call: TransferCall, batches: AsyncGenerator[list[Row]], context: ToolContext
) -> tuple[int, int]:
    """Store all batches in one transaction, and return the numbers of rows and batches. Raises FailedError and
    ToolError.
    """
    target = call.target
    if call.mode in ("upsert", "merge"):
        raise ConfigError(
            f"a transfer into Snowflake has no mode {call.mode}: write a MERGE as the query of the target"
        )
    rows = chunks = 0
    async with open_session(target.auth, target.config, context) as snowflake:
        await snowflake.call(lambda connection: connection.cursor().execute("begin"))
        if call.mode == "replace" and not has_statement(target.config):
            await _execute(snowflake, f"delete from {_table(target)}")  # noqa: S608 - the name is checked
        async for batch in batches:
            mapped_rows = sink_rows({"mapping": target.config.get("mapping")}, batch)
            await _store_batch(snowflake, target, mapped_rows)
            rows, chunks = rows + len(mapped_rows), chunks + 1
            context.heartbeat()
        await _execute(snowflake, "commit")
    return rows, chunks


async def _execute(snowflake: Session, text: str) -> None:
    await snowflake.call(lambda connection: connection.cursor().execute(text))


async def _store_batch(snowflake: Session, target: TransferSide, rows: list[Row]) -> None:
    """Store a batch. A column that a row lacks is stored as null."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    values = [[_to_parameter(row.get(name)) for name in columns] for row in rows]
    texts = statements_of(target.config, "snowflake") if has_statement(target.config) else [_insert(target, columns)]
    for text in texts:
        await snowflake.call(_batch_insert(text, values))


def _batch_insert(text: str, values: list[list[Json]]) -> Callable[[Any], Any]:
    return lambda connection: connection.cursor().executemany(text, values)


def _insert(target: TransferSide, columns: Sequence[str]) -> str:
    names, placeholders = ", ".join(map(_column_name, columns)), ", ".join(["%s"] * len(columns))
    return f"insert into {_table(target)} ({names}) values ({placeholders})"  # noqa: S608 - the names are checked


def _table(target: TransferSide) -> str:
    return ".".join(table_parts(target.config.get("table")))


def _column_name(column: str) -> str:
    [part] = table_parts(column)
    return part


def _to_parameter(value: Json) -> Json:
    return json.dumps(value) if isinstance(value, dict | list) else value
