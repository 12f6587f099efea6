"""The postgres sink: exactly once if the role may use the ledger (semantics.md 26, 26a).

Entries and rows are committed in one transaction. A second attempt with the same key, concurrent or after a crash
between commit and report, waits at the unique key until the first has ended. Then it finds the entry and writes
nothing.
"""

from __future__ import annotations

from noetl_activities.errors import SinkError
from noetl_activities.postgres.connect import Connection, open_connection
from noetl_activities.postgres.errors import SQL_ERRORS, sql_error
from noetl_activities.postgres.transaction import transaction
from noetl_activities.sinks import postgres_ledger as ledger
from noetl_activities.sinks.data import key_columns, sink_rows, table_parts
from noetl_activities.sinks.ledger import StoreResult, is_time_to_prune
from noetl_activities.sinks.postgres_statement import Statements
from noetl_activities.sinks.postgres_table import Table
from noetl_activities.sinks.requests import OutcomeLookup, SinkRequest
from noetl_activities.sql import has_statement, statements_of
from noetl_activities.tool import ToolContext

__all__ = ["find_postgres", "store_postgres"]


async def store_postgres(request: SinkRequest, context: ToolContext) -> StoreResult:
    """Insert, append, upsert, replace or merge rows of ``table``, or run the ``statement`` of the sink."""
    try:
        async with open_connection(request.auth, request.config, context) as connection:
            if not await ledger.create_if_missing(connection):
                return await _store_without_ledger(connection, request)
            async with transaction(connection):
                store_result = await _store(connection, request)
            if is_time_to_prune():
                await ledger.prune(connection)
            return store_result
    except SQL_ERRORS as error:
        raise SinkError(sql_error(error)) from error


async def find_postgres(lookup: OutcomeLookup, context: ToolContext) -> str | None:
    """Return the outcome of a call in the ledger of this sink; None if there is no outcome or no ledger."""
    try:
        async with open_connection(lookup.auth, lookup.config, context) as connection:
            return await ledger.find_outcome(connection, lookup.key, lookup.repetition)
    except SQL_ERRORS as error:
        raise SinkError(sql_error(error)) from error


async def _store(connection: Connection, request: SinkRequest) -> StoreResult:
    entry, mode = request.entry, request.mode
    if entry.outcome is not None:
        existing_outcome = await ledger.store_outcome(connection, entry.call_key, entry.repetition, entry.outcome)
        if existing_outcome is not None:
            return StoreResult(
                table=_table_name(request), duplicate=True, is_in_ledger=True, existing_outcome=existing_outcome
            )
    if not await ledger.add_entry(connection, entry.key, entry.repetition):
        return StoreResult(table=_table_name(request), duplicate=True, is_in_ledger=True)
    if mode == "replace" and entry.replace_key and not await ledger.add_entry(connection, entry.replace_key, 0):
        mode = "append"
    rows, table = await _write_rows(connection, request, mode)
    return StoreResult(rows, table, is_in_ledger=True)


async def _store_without_ledger(connection: Connection, request: SinkRequest) -> StoreResult:
    async with transaction(connection):
        rows, table = await _write_rows(connection, request, request.mode)
    return StoreResult(rows, table, warning=ledger.NO_LEDGER)


def _table_name(request: SinkRequest) -> str | None:
    table = request.config.get("table")
    return None if table is None else str(table)


async def _write_rows(connection: Connection, request: SinkRequest, mode: str) -> tuple[int, str | None]:
    """Write the rows; return their number and the name of the table, None for a statement."""
    config, rows = request.config, sink_rows(request.config, request.result)
    if has_statement(config):
        statements = Statements(connection, statements_of(config, "postgres"))
        return await statements.run(config.get("params"), rows), None
    table = await Table.find(connection, table_parts(config.get("table")))
    return await table.write(rows, mode, key_columns(config, mode)), table.name
