"""The duckdb sink: rows and their ledger entry are committed in one transaction of the file (semantics.md 26a).

Only one process has the file open (duckdb_process_pool.py), and it runs the sinks of the file one after the other, so
they never conflict.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from noetl_activities.duckdb_location import DatabaseFile, has_file, place_of
from noetl_activities.duckdb_process import failure_outcome
from noetl_activities.duckdb_process_pool import duckdb_process
from noetl_activities.duckdb_wire import Done, Failed, Find, Store
from noetl_activities.errors import SinkError
from noetl_activities.sinks.data import keys_of, parts_of, require_keys, rows_of
from noetl_activities.sinks.ledger import Entry, Stored
from noetl_activities.sinks.named_params import bindings, numbered, sources_of
from noetl_activities.sql import has_statement, params_of, statements_of
from noetl_activities.tool import Json, ToolContext

__all__ = ["find_duckdb", "store_duckdb"]


async def store_duckdb(
    config: dict[str, Json], mode: str, entry: Entry, result: Json, auth: Json, context: ToolContext
) -> Stored:
    """Insert, append, upsert or replace rows of ``table``, which is created if missing, or run the ``statement`` of the
    sink."""
    del auth, context
    make = _statements(config, entry, result) if has_statement(config) else _rows(config, mode, entry, result)
    place = await _place(config, entry.key)
    async with duckdb_process(place) as process:
        reply = await process.ask(make)
    return _done(reply, place).stored or Stored()


def _rows(config: dict[str, Json], mode: str, entry: Entry, result: Json) -> Callable[[int], Store]:
    rows, keys = rows_of(config, result), keys_of(config, mode)
    require_keys(rows, mode, keys)
    table = ".".join(f'"{part}"' for part in parts_of(config.get("table")))
    return lambda number: Store(number, table, rows, mode, keys, entry)


def _statements(config: dict[str, Json], entry: Entry, result: Json) -> Callable[[int], Store]:
    """The statements, each as often as it is run. A name that nothing binds is left to DuckDB, as in ``{'a':b}``."""
    texts, params, rows = statements_of(config, "duckdb"), config.get("params"), rows_of(config, result)
    known = {name for source in sources_of(params, rows) for name in source}
    statements: list[str] = []
    values: list[list[Json]] = []
    for text in texts:
        sql, names = numbered(text, known.__contains__)
        bound = bindings(names, params, rows) if names else [_positional(params, texts)]
        statements += [sql] * len(bound)
        values += bound
    return lambda number: Store(number, "", [], "", [], entry, statements, values)


def _positional(params: Json, texts: list[str]) -> list[Json]:
    return [] if isinstance(params, dict) else params_of(params, texts)


async def find_duckdb(config: dict[str, Json], key: str, n: int) -> str | None:
    """Return the outcome of a call in the ledger of this sink, None if there is none."""
    place = await _place(config, key)
    if not await asyncio.to_thread(has_file, place):
        return None
    async with duckdb_process(place) as process:
        reply = await process.ask(lambda number: Find(number, key, n))
    return _done(reply, place).text


async def _place(config: dict[str, Json], key: str) -> DatabaseFile:
    """Return the database file of a sink. Every key begins with the execution id."""
    return await asyncio.to_thread(place_of, config, key.partition("/")[0])


def _done(reply: Done | Failed, place: DatabaseFile) -> Done:
    if isinstance(reply, Failed):
        raise SinkError(failure_outcome(reply, place))
    return reply
