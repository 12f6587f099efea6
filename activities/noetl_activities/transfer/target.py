"""Stores the rows of a transfer in its target.

In a database, all rows and the outcome of the call are stored in one transaction (semantics.md 26a). A server gets one
request per batch, with the same key if the call is repeated.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from typing import TypeAlias

from noetl_activities.errors import ConfigError, FailedError, SinkError
from noetl_activities.outcome import Outcome
from noetl_activities.outcome_ledger import LedgerResult, LedgerSlot, result_from_ledger
from noetl_activities.postgres.connect import Connection, open_connection
from noetl_activities.postgres.errors import SQL_ERRORS, sql_error
from noetl_activities.postgres.ledger_transaction import StatementsResult, run_with_ledger
from noetl_activities.postgres.transaction import transaction
from noetl_activities.sinks.data import Row, key_columns, sink_rows, table_parts
from noetl_activities.sinks.duckdb import store_duckdb
from noetl_activities.sinks.ledger import Entry
from noetl_activities.sinks.postgres_statement import Statements
from noetl_activities.sinks.postgres_table import Table
from noetl_activities.sinks.requests import SinkRequest
from noetl_activities.sinks.tool_call import call_tool
from noetl_activities.sql import has_statement, statements_of
from noetl_activities.tool import Request, ToolContext
from noetl_activities.transfer.call import TransferCall
from noetl_activities.transfer.snowflake import store_in_snowflake
from noetl_activities.transfer.source import name_side_in_error

__all__ = ["Batches", "store_batches"]

Batches: TypeAlias = AsyncGenerator[list[Row]]

_TARGET = "the target of a transfer"
_PLACEHOLDER = re.compile(r"""(?P<other>'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/)|%s""", re.DOTALL)


async def store_batches(
    call: TransferCall, batches: Batches, request: Request, context: ToolContext, slot: LedgerSlot | None
) -> LedgerResult:
    """Store all batches, and return ``{status, rows_transferred, chunks, source, target}``. Raises FailedError and
    ToolError.
    """
    try:
        match call.target.kind:
            case "postgres":
                return await _store_in_postgres(call, batches, context, slot)
            case "duckdb":
                return await _store_in_duckdb(call, batches, request, context, slot)
            case "snowflake":
                return LedgerResult(_outcome(call, *await store_in_snowflake(call, batches, context)))
            case _:
                return await _send_batches(call, batches, request, context)
    except SinkError as error:
        raise FailedError(name_side_in_error("target", error.outcome)) from error
    except SQL_ERRORS as error:
        raise FailedError(name_side_in_error("target", sql_error(error))) from error


def _outcome(call: TransferCall, rows: int, chunks: int) -> Outcome:
    sides = {"source": call.source.kind, "target": call.target.kind}
    return Outcome("ok", {"status": "success", "rows_transferred": rows, "chunks": chunks, **sides})


# ---- Postgres --------------------------------------------------------------------------------------------------------


async def _store_in_postgres(
    call: TransferCall, batches: Batches, context: ToolContext, slot: LedgerSlot | None
) -> LedgerResult:
    async with open_connection(call.target.auth, call.target.config, context) as connection:

        async def run() -> StatementsResult:
            write = _run_statement_for_rows if has_statement(call.target.config) else _write_to_table
            return StatementsResult(_outcome(call, *await write(connection, call, batches, context)), ["INSERT"])

        if slot is not None:
            return await run_with_ledger(connection, run, slot)
        async with transaction(connection):
            return LedgerResult((await run()).outcome)


async def _write_to_table(
    connection: Connection, call: TransferCall, batches: Batches, context: ToolContext
) -> tuple[int, int]:
    config, keys = call.target.config, key_columns(call.target.config, call.mode, _TARGET)
    table = await Table.find(connection, table_parts(config.get("table")))
    if call.mode == "replace":
        await table.write([], call.mode, keys)
    rows = chunks = 0
    async for batch in batches:
        rows += await table.write(sink_rows({"mapping": config.get("mapping")}, batch), _batch_mode(call.mode), keys)
        chunks += 1
        context.heartbeat()
    return rows, chunks


def _batch_mode(mode: str) -> str:
    return "append" if mode == "replace" else mode


async def _run_statement_for_rows(
    connection: Connection, call: TransferCall, batches: Batches, context: ToolContext
) -> tuple[int, int]:
    """Run the statement of the target for each row: ``:name`` is the column with that name, ``%s`` the next column."""
    config = call.target.config
    texts = statements_of({**config, "mapping": None}, "postgres")
    numbered_texts = [_number_placeholders(text) for text in texts]
    is_positional = numbered_texts != texts
    statements = Statements(connection, numbered_texts)
    rows = chunks = 0
    async for batch in batches:
        mapped_rows = sink_rows({"mapping": config.get("mapping")}, batch)
        if is_positional:
            for row in mapped_rows:
                await statements.run(list(row.values()), [])
        else:
            await statements.run(None, mapped_rows)
        rows, chunks = rows + len(mapped_rows), chunks + 1
        context.heartbeat()
    return rows, chunks


def _number_placeholders(text: str) -> str:
    """Replace ``%s``, as in older playbooks, by ``$1``, ``$2`` ..."""
    count = 0

    def number(match: re.Match[str]) -> str:
        nonlocal count
        if match["other"] is not None:
            return match[0]
        count += 1
        return f"${count}"

    return _PLACEHOLDER.sub(number, text)


# ---- DuckDB ----------------------------------------------------------------------------------------------------------


async def _store_in_duckdb(
    call: TransferCall, batches: Batches, request: Request, context: ToolContext, slot: LedgerSlot | None
) -> LedgerResult:
    """Store all rows at once: the DuckDB process performs a sink as a whole."""
    if has_statement(call.target.config):
        raise ConfigError("a transfer into DuckDB needs a table: it takes no statement")
    key_columns(call.target.config, call.mode, _TARGET)
    rows: list[Row] = []
    chunks = 0
    async for batch in batches:
        rows += batch
        chunks += 1
        context.heartbeat()
    outcome = _outcome(call, len(rows), chunks)
    entry = Entry(f"{request.key}/rows", request.repetition)
    if slot is not None:
        entry = Entry(f"{slot.key}/rows", slot.repetition, slot.key, slot.encode_outcome(outcome))
    store_result = await store_duckdb(SinkRequest("duckdb", call.target.config, call.mode, entry, rows))
    if store_result.existing_outcome is not None:
        return result_from_ledger(store_result.existing_outcome)
    return LedgerResult(outcome, is_in_ledger=slot is not None)


# ---- http ------------------------------------------------------------------------------------------------------------


async def _send_batches(call: TransferCall, batches: Batches, request: Request, context: ToolContext) -> LedgerResult:
    rows = chunks = 0
    async for batch in batches:
        entry = Entry(f"{request.key}/{chunks}", request.repetition)
        await call_tool(SinkRequest("http", call.target.config, call.mode, entry, batch, call.target.auth), context)
        rows, chunks = rows + len(batch), chunks + 1
    return LedgerResult(_outcome(call, rows, chunks))
