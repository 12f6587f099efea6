"""Postgres sinks of many calls in one transaction: all their rows and all their ledger entries (semantics.md 26b).

A batch reduces the cost of its calls and never changes their outcomes. If anything goes wrong (a row is rejected, a
ledger entry exists already, a lock is held, the connection is lost), the transaction is rolled back. If a single call
may be the cause, each half of the batch is tried, and so on; a call that is left alone is stored by postgres.py on a
connection of its own, with its own error message.

    batch ──► ledger entries of all ──► rows of all ──► commit ──► a response for each
                         └── failed ─────────┴─────────────┴──► halves ──► ... ──► one call: no response

Only INSERT, UPDATE, DELETE and MERGE are batched: other SQL could end the transaction or change how the next call runs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from noetl_activities.postgres_connect import Connection, connected_to
from noetl_activities.postgres_errors import SQL_ERRORS, sql_error
from noetl_activities.postgres_transaction import transaction
from noetl_activities.sinks import postgres_ledger as ledger
from noetl_activities.sinks.batcher import BatchedRequest
from noetl_activities.sinks.data import Row, keys_of, parts_of, rows_of
from noetl_activities.sinks.ledger import Entry, Stored, is_time_to_prune
from noetl_activities.sinks.postgres_statement import Statements
from noetl_activities.sinks.postgres_table import Table
from noetl_activities.sql import has_statement, statements_of
from noetl_activities.tool import Json

__all__ = ["LedgerKey", "LedgerLookup", "SinkRequest", "batch_key", "find_batch", "store_batch"]

_LOCK_SECONDS = 1
"""How long a batch waits for a lock, which a single one of its calls may need."""

_BATCHABLE = re.compile(r"(?:\s|--[^\n]*\n|(?>/\*.*?\*/))*+(?:insert|update|delete|merge)\b", re.IGNORECASE | re.DOTALL)

Login: TypeAlias = "dict[str, Any]"
"""The arguments of a connection."""


class LedgerKey(NamedTuple):
    """The key of an outcome in the ledger."""

    key: str
    n: int


class LedgerLookup(NamedTuple):
    """The outcome that the ledger has for a call, as JSON, if any."""

    outcome: str | None


class SinkRequest(NamedTuple):
    """The rows that one call stores. ``mode`` and ``config`` without its data are the same for all of a batch."""

    config: dict[str, Json]
    mode: str
    entry: Entry
    result: Json


class _SplitBatchError(Exception):
    """This batch cannot be stored, and single calls may be the cause: try its halves."""


def batch_key(request: SinkRequest) -> str | None:
    """Equal for requests that may share a batch on one login; None for a request that is never batched."""
    if request.mode == "replace" and not request.entry.once:
        return None
    if has_statement(request.config) and not all(map(_BATCHABLE.match, statements_of(request.config, "postgres"))):
        return None
    target = {name: value for name, value in request.config.items() if name not in ("data", "params")}
    return repr((target, request.mode, request.entry.once if request.mode == "replace" else ""))


async def find_batch(login: Login, batch: Sequence[BatchedRequest[LedgerKey, LedgerLookup]]) -> None:
    """Look up the outcomes of all calls. A call without a response looks up its own."""
    try:
        async with connected_to(login) as connection:
            outcomes = await ledger.find_all(connection, [queued.request for queued in batch])
    except SQL_ERRORS:
        return
    for queued in batch:
        queued.respond(LedgerLookup(outcomes.get(queued.request)))


async def store_batch(login: Login, batch: Sequence[BatchedRequest[SinkRequest, Stored]]) -> None:
    """Store the rows of all calls. A call without a response stores its own."""
    if len(batch) < 2:
        return
    try:
        async with connected_to(login) as connection:
            if await ledger.ensure(connection):
                await _store(connection, batch)
                if any(is_time_to_prune() for _ in batch):
                    await ledger.prune(connection)
    except SQL_ERRORS:
        return


async def _store(connection: Connection, batch: Sequence[BatchedRequest[SinkRequest, Stored]]) -> None:
    """Store this part of a batch, or its halves. Raises errors that no single call causes."""
    batch = [queued for queued in batch if queued.is_open]
    if len(batch) < 2:
        return
    try:
        stored = await _committed(connection, batch)
    except Exception as error:
        if isinstance(error, SQL_ERRORS) and _concerns_all(error):
            raise
        half = len(batch) // 2
        await _store(connection, batch[:half])
        await _store(connection, batch[half:])
        return
    for queued, done in zip(batch, stored, strict=True):
        queued.respond(done)


def _concerns_all(error: BaseException) -> bool:
    """Retryable: the server is down, a lock is held, a concurrent write conflicts. The halves would fail as well."""
    info = sql_error(error).error
    return info is not None and bool(info.retryable)


async def _committed(connection: Connection, batch: Sequence[BatchedRequest[SinkRequest, Stored]]) -> list[Stored]:
    async with transaction(connection):
        await connection.execute(f"set local lock_timeout = '{_LOCK_SECONDS}s'")
        stored = await _written(connection, [queued.request for queued in batch])
        if not all(queued.is_open for queued in batch):
            raise _SplitBatchError  # one was cancelled: its rows must not be committed
    return stored


async def _written(connection: Connection, calls: Sequence[SinkRequest]) -> list[Stored]:
    if not await ledger.claim_all(connection, [entry for call in calls for entry in _entries(call.entry)]):
        raise _SplitBatchError  # an earlier or concurrent attempt has stored some of it
    first = calls[0]
    rows = [rows_of(call.config, call.result) for call in calls]
    if has_statement(first.config):
        statements = Statements(connection, statements_of(first.config, "postgres"))
        counts = [
            await statements.run(call.config.get("params"), batch_rows)
            for call, batch_rows in zip(calls, rows, strict=True)
        ]
        return [Stored(count, is_in_ledger=True) for count in counts]
    mode, keys = first.mode, keys_of(first.config, first.mode)
    if mode == "replace" and not await ledger.claim(connection, first.entry.once, 0):
        mode = "append"
    table = await Table.find(connection, parts_of(first.config.get("table")))
    await table.write(_in_order([row for call_rows in rows for row in call_rows], keys), mode, keys)
    return [Stored(len(call_rows), table.name, is_in_ledger=True) for call_rows in rows]


def _entries(entry: Entry) -> list[tuple[str, int, str | None]]:
    own = (entry.key, entry.n, None)
    return [own] if entry.outcome is None else [own, (entry.call, entry.n, entry.outcome)]


def _in_order(rows: list[Row], keys: Sequence[str]) -> list[Row]:
    """Sorted by key, so that two batches that change the same rows do not deadlock. Rows with the same key keep their
    order.
    """
    return sorted(rows, key=lambda row: repr([row.get(key) for key in keys])) if keys else rows
