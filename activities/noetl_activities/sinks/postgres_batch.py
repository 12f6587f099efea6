"""Postgres sinks of many calls in one transaction: all their rows and all their ledger entries (semantics.md 26b).

A batch reduces the cost of its calls and never changes their outcomes. If anything goes wrong (a row is rejected, a
ledger entry exists already, a lock is held, the connection is lost), the transaction is rolled back. If a single call
may be the cause, the batch is split in halves repeatedly. A single call gets no response: it then stores its rows with
postgres.py, with a separate connection and its own error message.

    batch ──► ledger entries of all ──► rows of all ──► commit ──► a response for each
                         └── failed ─────────┴─────────────┴──► halves ──► ... ──► one call: no response

Only INSERT, UPDATE, DELETE and MERGE are batched: other SQL could end the transaction or change how the next call runs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from noetl_activities.postgres.connect import Connection, open_connection_by_arguments
from noetl_activities.postgres.errors import SQL_ERRORS, sql_error
from noetl_activities.postgres.transaction import transaction
from noetl_activities.sinks import postgres_ledger as ledger
from noetl_activities.sinks.batcher import BatchedRequest
from noetl_activities.sinks.data import Row, key_columns, sink_rows, table_parts
from noetl_activities.sinks.ledger import Entry, StoreResult, is_time_to_prune
from noetl_activities.sinks.postgres_statement import Statements
from noetl_activities.sinks.postgres_table import Table
from noetl_activities.sinks.requests import SinkRequest
from noetl_activities.sql import has_statement, statements_of

__all__ = ["LedgerKey", "LedgerLookup", "batch_key", "find_batch", "store_batch"]

_LOCK_SECONDS = 1
"""How long a batch waits for a lock, which may concern only one of its calls."""

_BATCHABLE = re.compile(r"(?:\s|--[^\n]*\n|(?>/\*.*?\*/))*+(?:insert|update|delete|merge)\b", re.IGNORECASE | re.DOTALL)

Login: TypeAlias = "dict[str, Any]"
"""The arguments of a connection."""


class LedgerKey(NamedTuple):
    """The key of an outcome in the ledger."""

    key: str
    repetition: int


class LedgerLookup(NamedTuple):
    """The outcome of a call in the ledger, as JSON; None if there is none."""

    outcome: str | None


class _SplitBatchError(Exception):
    """The batch cannot be stored as a whole, and single calls may be the cause."""


def batch_key(request: SinkRequest) -> str | None:
    """Return the key of the batches that the request may join with its login; None if it is never batched. All
    requests of a batch have the same ``mode``, and the same ``config`` except for its data.
    """
    if request.mode == "replace" and not request.entry.replace_key:
        return None
    if has_statement(request.config) and not all(map(_BATCHABLE.match, statements_of(request.config, "postgres"))):
        return None
    target = {name: value for name, value in request.config.items() if name not in ("data", "params")}
    return repr((target, request.mode, request.entry.replace_key if request.mode == "replace" else ""))


async def find_batch(login: Login, batch: Sequence[BatchedRequest[LedgerKey, LedgerLookup]]) -> None:
    """Look up the outcomes of all calls. A call that gets no response looks up its own outcome."""
    try:
        async with open_connection_by_arguments(login) as connection:
            outcomes = await ledger.find_outcomes(connection, [batched_request.request for batched_request in batch])
    except SQL_ERRORS:
        return
    for batched_request in batch:
        batched_request.respond(LedgerLookup(outcomes.get(batched_request.request)))


async def store_batch(login: Login, batch: Sequence[BatchedRequest[SinkRequest, StoreResult]]) -> None:
    """Store the rows of all calls. A call that gets no response stores its own rows."""
    if len(batch) < 2:
        return
    try:
        async with open_connection_by_arguments(login) as connection:
            if await ledger.create_if_missing(connection):
                await _store(connection, batch)
                if any(is_time_to_prune() for _ in batch):
                    await ledger.prune(connection)
    except SQL_ERRORS:
        return


async def _store(connection: Connection, batch: Sequence[BatchedRequest[SinkRequest, StoreResult]]) -> None:
    """Store this part of a batch, or its halves. Raises errors that no single call causes."""
    batch = [batched_request for batched_request in batch if batched_request.is_open]
    if len(batch) < 2:
        return
    try:
        responses = await _commit(connection, batch)
    except Exception as error:
        if isinstance(error, SQL_ERRORS) and _affects_all(error):
            raise
        half = len(batch) // 2
        await _store(connection, batch[:half])
        await _store(connection, batch[half:])
        return
    for batched_request, response in zip(batch, responses, strict=True):
        batched_request.respond(response)


def _affects_all(error: BaseException) -> bool:
    """Whether the halves of the batch would fail as well: the error is retryable, as the server is down, a lock is
    held, or a concurrent write conflicts.
    """
    info = sql_error(error).error
    return info is not None and bool(info.retryable)


async def _commit(
    connection: Connection, batch: Sequence[BatchedRequest[SinkRequest, StoreResult]]
) -> list[StoreResult]:
    async with transaction(connection):
        await connection.execute(f"set local lock_timeout = '{_LOCK_SECONDS}s'")
        store_results = await _write(connection, [batched_request.request for batched_request in batch])
        if not all(batched_request.is_open for batched_request in batch):
            raise _SplitBatchError  # one was cancelled: its rows must not be committed
    return store_results


async def _write(connection: Connection, calls: Sequence[SinkRequest]) -> list[StoreResult]:
    if not await ledger.add_entries(connection, [entry for call in calls for entry in _ledger_entries(call.entry)]):
        raise _SplitBatchError  # an earlier or concurrent attempt has stored some of it
    first_call = calls[0]
    rows = [sink_rows(call.config, call.result) for call in calls]
    if has_statement(first_call.config):
        statements = Statements(connection, statements_of(first_call.config, "postgres"))
        counts = [
            await statements.run(call.config.get("params"), batch_rows)
            for call, batch_rows in zip(calls, rows, strict=True)
        ]
        return [StoreResult(count, is_in_ledger=True) for count in counts]
    mode, keys = first_call.mode, key_columns(first_call.config, first_call.mode)
    if mode == "replace" and not await ledger.add_entry(connection, first_call.entry.replace_key, 0):
        mode = "append"
    table = await Table.find(connection, table_parts(first_call.config.get("table")))
    await table.write(_sort_by_key([row for call_rows in rows for row in call_rows], keys), mode, keys)
    return [StoreResult(len(call_rows), table.name, is_in_ledger=True) for call_rows in rows]


def _ledger_entries(entry: Entry) -> list[tuple[str, int, str | None]]:
    sink_entry = (entry.key, entry.repetition, None)
    return [sink_entry] if entry.outcome is None else [sink_entry, (entry.call_key, entry.repetition, entry.outcome)]


def _sort_by_key(rows: list[Row], keys: Sequence[str]) -> list[Row]:
    """Sort rows by key, so that two batches that change the same rows do not deadlock. Rows with the same key keep
    their order.
    """
    return sorted(rows, key=lambda row: repr([row.get(key) for key in keys])) if keys else rows
