"""The duckdb sink: commits rows and their ledger entry in one transaction of the file (semantics.md 26a).

Only one process has the file open (duckdb/process_pool.py). It runs the sinks of the file one after the other, so they
never conflict.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from noetl_activities.duckdb.location import DatabaseFile, database_file, has_file
from noetl_activities.duckdb.process import failure_outcome
from noetl_activities.duckdb.process_pool import duckdb_process
from noetl_activities.duckdb.wire import Done, Failed, Find, Store
from noetl_activities.errors import SinkError
from noetl_activities.sinks.data import key_columns, require_keys, sink_rows, table_parts
from noetl_activities.sinks.ledger import StoreResult
from noetl_activities.sinks.named_params import bind_names, binding_rows, number_names
from noetl_activities.sinks.requests import OutcomeLookup, SinkRequest
from noetl_activities.sql import has_statement, single_statement_params, statements_of
from noetl_activities.tool import Json

__all__ = ["find_duckdb", "store_duckdb"]


async def store_duckdb(request: SinkRequest) -> StoreResult:
    """Insert, append, upsert or replace rows of ``table``, which is created if missing, or run the ``statement`` of the
    sink.
    """
    message = _statement_message(request) if has_statement(request.config) else _row_message(request)
    file = await _sink_database(request.config, request.entry.key)
    async with duckdb_process(file) as process:
        reply = await process.ask(message)
    return _successful_reply(reply, file).store_result or StoreResult()


def _row_message(request: SinkRequest) -> Callable[[int], Store]:
    config, mode, entry = request.config, request.mode, request.entry
    rows, keys = sink_rows(config, request.result), key_columns(config, mode)
    require_keys(rows, mode, keys)
    table = ".".join(f'"{part}"' for part in table_parts(config.get("table")))
    return lambda number: Store(number, table, rows, mode, keys, entry)


def _statement_message(request: SinkRequest) -> Callable[[int], Store]:
    """Return the message with each statement as often as it is run. A name that nothing binds is left to DuckDB, as in
    ``{'a':b}``.
    """
    config, params = request.config, request.config.get("params")
    statements_text, rows = statements_of(config, "duckdb"), sink_rows(config, request.result)
    bound_names = {name for source in binding_rows(params, rows) for name in source}
    statements: list[str] = []
    values: list[list[Json]] = []
    for text in statements_text:
        sql, names = number_names(text, bound_names.__contains__)
        bound_values = bind_names(names, params, rows) if names else [_positional_params(params, statements_text)]
        statements += [sql] * len(bound_values)
        values += bound_values
    return lambda number: Store(number, "", [], "", [], request.entry, statements, values)


def _positional_params(params: Json, texts: list[str]) -> list[Json]:
    return [] if isinstance(params, dict) else single_statement_params(params, texts)


async def find_duckdb(lookup: OutcomeLookup) -> str | None:
    """Return the outcome of a call in the ledger of this sink; None if there is none."""
    file = await _sink_database(lookup.config, lookup.key)
    if not await asyncio.to_thread(has_file, file):
        return None
    async with duckdb_process(file) as process:
        reply = await process.ask(lambda number: Find(number, lookup.key, lookup.repetition))
    return _successful_reply(reply, file).text


async def _sink_database(config: dict[str, Json], key: str) -> DatabaseFile:
    """Return the database file of a sink. Every key begins with the execution id."""
    return await asyncio.to_thread(database_file, config, key.partition("/")[0])


def _successful_reply(reply: Done | Failed, file: DatabaseFile) -> Done:
    if isinstance(reply, Failed):
        raise SinkError(failure_outcome(reply, file))
    return reply
