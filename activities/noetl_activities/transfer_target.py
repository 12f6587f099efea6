"""Stores the rows of a transfer in its target.

In a database, all rows and the outcome of the call are stored in one transaction (semantics.md 26a). A server gets one
request per batch, with the same key if the call is repeated.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from typing import TypeAlias

from noetl_activities.errors import ConfigError, FailedError, SinkError
from noetl_activities.once import LedgerSlot, OnceResult, answer_from_ledger
from noetl_activities.outcome import Outcome
from noetl_activities.postgres_connect import Connection, connected
from noetl_activities.postgres_errors import SQL_ERRORS, sql_error
from noetl_activities.postgres_once import StatementsResult, run_once
from noetl_activities.postgres_transaction import transaction
from noetl_activities.sinks.data import Row, keys_of, parts_of, rows_of
from noetl_activities.sinks.duckdb import store_duckdb
from noetl_activities.sinks.ledger import Entry
from noetl_activities.sinks.postgres_statement import Statements
from noetl_activities.sinks.postgres_table import Table
from noetl_activities.sinks.tool_call import call_tool
from noetl_activities.sql import has_statement, statements_of
from noetl_activities.tool import Request, ToolContext
from noetl_activities.transfer_call import TransferCall
from noetl_activities.transfer_snowflake import store_in_snowflake
from noetl_activities.transfer_source import entry_fields

__all__ = ["Batches", "store_batches"]

Batches: TypeAlias = AsyncGenerator[list[Row]]

_TARGET = "the target of a transfer"
_PLACEHOLDER = re.compile(r"""(?P<other>'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/)|%s""", re.DOTALL)


async def store_batches(
    call: TransferCall, batches: Batches, request: Request, context: ToolContext, slot: LedgerSlot | None
) -> OnceResult:
    """Return ``{status, rows_transferred, chunks, source, target}``. Raises FailedError and ToolError."""
    try:
        match call.target.kind:
            case "postgres":
                return await _into_postgres(call, batches, context, slot)
            case "duckdb":
                return await _into_duckdb(call, batches, request, context, slot)
            case "snowflake":
                return OnceResult(_outcome(call, *await store_in_snowflake(call, batches, context)))
            case _:
                return await _into_http(call, batches, request, context)
    except SinkError as error:
        raise FailedError(entry_fields("target", error.outcome)) from error
    except SQL_ERRORS as error:
        raise FailedError(entry_fields("target", sql_error(error))) from error


def _outcome(call: TransferCall, rows: int, chunks: int) -> Outcome:
    ends = {"source": call.source.kind, "target": call.target.kind}
    return Outcome("ok", {"status": "success", "rows_transferred": rows, "chunks": chunks, **ends})


# ---- Postgres --------------------------------------------------------------------------------------------------------


async def _into_postgres(
    call: TransferCall, batches: Batches, context: ToolContext, slot: LedgerSlot | None
) -> OnceResult:
    async with connected(call.target.auth, call.target.config, context) as connection:

        async def run() -> StatementsResult:
            write = _by_statement if has_statement(call.target.config) else _by_table
            return StatementsResult(_outcome(call, *await write(connection, call, batches, context)), ["INSERT"])

        if slot is not None:
            return await run_once(connection, run, slot)
        async with transaction(connection):
            return OnceResult((await run()).outcome)


async def _by_table(
    connection: Connection, call: TransferCall, batches: Batches, context: ToolContext
) -> tuple[int, int]:
    config, keys = call.target.config, keys_of(call.target.config, call.mode, _TARGET)
    table = await Table.find(connection, parts_of(config.get("table")))
    if call.mode == "replace":
        await table.write([], call.mode, keys)
    rows = chunks = 0
    async for batch in batches:
        rows += await table.write(rows_of({"mapping": config.get("mapping")}, batch), _mode_of_a_batch(call.mode), keys)
        chunks += 1
        context.heartbeat()
    return rows, chunks


def _mode_of_a_batch(mode: str) -> str:
    return "append" if mode == "replace" else mode


async def _by_statement(
    connection: Connection, call: TransferCall, batches: Batches, context: ToolContext
) -> tuple[int, int]:
    """Run the statement of the target for each row: ``:name`` is the column of that name, ``%s`` the next column."""
    config = call.target.config
    texts = statements_of({**config, "mapping": None}, "postgres")
    positional = [_numbered(text) for text in texts]
    is_positional = positional != texts
    statements = Statements(connection, positional)
    rows = chunks = 0
    async for batch in batches:
        given = rows_of({"mapping": config.get("mapping")}, batch)
        if is_positional:
            for row in given:
                await statements.run(list(row.values()), [])
        else:
            await statements.run(None, given)
        rows, chunks = rows + len(given), chunks + 1
        context.heartbeat()
    return rows, chunks


def _numbered(text: str) -> str:
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


async def _into_duckdb(
    call: TransferCall, batches: Batches, request: Request, context: ToolContext, slot: LedgerSlot | None
) -> OnceResult:
    """Store all rows at once: the DuckDB process performs a sink as a whole."""
    if has_statement(call.target.config):
        raise ConfigError("a transfer into DuckDB needs a table: it takes no statement")
    keys_of(call.target.config, call.mode, _TARGET)
    rows: list[Row] = []
    chunks = 0
    async for batch in batches:
        rows += batch
        chunks += 1
        context.heartbeat()
    outcome = _outcome(call, len(rows), chunks)
    entry = Entry(f"{request.key}/rows", request.n)
    if slot is not None:
        entry = Entry(f"{slot.key}/rows", slot.n, slot.key, slot.text(outcome))
    stored = await store_duckdb(call.target.config, call.mode, entry, rows, None, context)
    if stored.rival is not None:
        return answer_from_ledger(stored.rival)
    return OnceResult(outcome, is_in_ledger=slot is not None)


# ---- http ------------------------------------------------------------------------------------------------------------


async def _into_http(call: TransferCall, batches: Batches, request: Request, context: ToolContext) -> OnceResult:
    rows = chunks = 0
    async for batch in batches:
        entry = Entry(f"{request.key}/{chunks}", request.n)
        await call_tool("http", call.target.config, entry, batch, call.target.auth, context)
        rows, chunks = rows + len(batch), chunks + 1
    return OnceResult(_outcome(call, rows, chunks))
