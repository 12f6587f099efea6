"""Postgres sinks of many calls in one transaction: all their rows, all their entries in the ledger (semantics.md 26b).

A batch only makes cheaper what each call would do by itself (postgres.py), and never decides what becomes of one. If
anything is unusual, nothing is stored: a row is refused, an entry is there already, a lock is held, the connection is
lost. Where that may lie in one call the halves of the batch are tried, and so on; who is left over stores by itself, on
a connection of its own, with its own outcome and its own words for it.

    batch ──► entries of all ──► rows of all ──► commit ──► each has its answer
                   └── refused ──────┴─────────────┴──► halves ──► ... ──► one alone: no answer

Not in a batch are sinks whose SQL could end its transaction or change how the next one runs: only INSERT, UPDATE,
DELETE and MERGE are known to do neither.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from noetl_activities.postgres_connect import SQL_ERRORS, Connection, connected_to, sql_error
from noetl_activities.sinks import postgres_ledger as ledger
from noetl_activities.sinks.data import DATA, Row, keys_of, parts_of, rows_of
from noetl_activities.sinks.gathering import Waiting
from noetl_activities.sinks.ledger import Entry, Stored, is_time_to_prune
from noetl_activities.sinks.postgres_statement import Statements
from noetl_activities.sinks.postgres_table import Table
from noetl_activities.sql import has_statement, statements_of
from noetl_activities.tool import Json

__all__ = ["Call", "Found", "Rows", "find_batch", "place_of", "store_batch"]

_LOCK_SECONDS = 1
"""How long a batch waits for a lock, which may concern one of its calls alone."""

_COMMON = re.compile(r"(?:\s|--[^\n]*\n|(?>/\*.*?\*/))*+(?:insert|update|delete|merge)\b", re.IGNORECASE | re.DOTALL)

Login: TypeAlias = "dict[str, Any]"
"""What a connection is opened with."""


class Call(NamedTuple):
    """Under which the ledger knows an outcome."""

    key: str
    n: int


class Found(NamedTuple):
    """The JSON of the outcome that the ledger has for a call, if any."""

    outcome: str | None


class Rows(NamedTuple):
    """What one call wants to store. ``config`` without its data is the same for all of a batch, like ``mode``."""

    config: dict[str, Json]
    mode: str
    entry: Entry
    result: Json


class _NotTogetherError(Exception):
    """This batch cannot be stored as it is, for a reason that lies in single calls."""


def place_of(rows: Rows) -> str | None:
    """The same for what may be stored together over one login; None for what is stored by itself."""
    if rows.mode == "replace" and not rows.entry.once:
        return None
    if has_statement(rows.config) and not all(map(_COMMON.match, statements_of(rows.config, "postgres"))):
        return None
    where = {name: value for name, value in rows.config.items() if name not in (*DATA, "params")}
    return repr((where, rows.mode, rows.entry.once if rows.mode == "replace" else ""))


async def find_batch(login: Login, batch: Sequence[Waiting[Call, Found]]) -> None:
    """Ask the ledger for all of them. Whoever gets no answer asks by itself."""
    try:
        async with connected_to(login) as connection:
            found = await ledger.find_all(connection, [one.wanted for one in batch])
    except SQL_ERRORS:
        return
    for one in batch:
        one.settle(Found(found.get(one.wanted)))


async def store_batch(login: Login, batch: Sequence[Waiting[Rows, Stored]]) -> None:
    """Store what they want. Whoever gets no answer has nothing stored as far as is known, and stores by itself."""
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


async def _store(connection: Connection, batch: Sequence[Waiting[Rows, Stored]]) -> None:
    """Store this part of a batch, or its halves. Raises the errors that do not lie in its rows."""
    batch = [one for one in batch if one.is_open]
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
    for one, done in zip(batch, stored, strict=True):
        one.settle(done)


def _concerns_all(error: BaseException) -> bool:
    """The server is away, a lock is held, a rival is writing: no row is at fault, and smaller parts would fail too."""
    info = sql_error(error).error
    return info is not None and info.retryable


async def _committed(connection: Connection, batch: Sequence[Waiting[Rows, Stored]]) -> list[Stored]:
    async with connection.transaction():
        await connection.execute(f"set local lock_timeout = '{_LOCK_SECONDS}s'")
        stored = await _written(connection, [one.wanted for one in batch])
        if not all(one.is_open for one in batch):
            raise _NotTogetherError  # one was cancelled, so its rows are not to stand
    return stored


async def _written(connection: Connection, calls: Sequence[Rows]) -> list[Stored]:
    if not await ledger.claim_all(connection, [entry for call in calls for entry in _entries(call.entry)]):
        raise _NotTogetherError  # an attempt before, or a rival, has stored something of it
    first = calls[0]
    rows = [rows_of(call.config, call.result) for call in calls]
    if has_statement(first.config):
        statements = Statements(connection, statements_of(first.config, "postgres"))
        counts = [await statements.run(call.config.get("params"), one) for call, one in zip(calls, rows, strict=True)]
        return [Stored(count, is_kept=True) for count in counts]
    mode, keys = first.mode, keys_of(first.config, first.mode)
    if mode == "replace" and not await ledger.claim(connection, first.entry.once, 0):
        mode = "append"
    table = await Table.find(connection, parts_of(first.config.get("table")))
    await table.write(_in_order([row for one in rows for row in one], keys), mode, keys)
    return [Stored(len(one), table.name, is_kept=True) for one in rows]


def _entries(entry: Entry) -> list[tuple[str, int, str | None]]:
    own = (entry.key, entry.n, None)
    return [own] if entry.outcome is None else [own, (entry.call, entry.n, entry.outcome)]


def _in_order(rows: list[Row], keys: Sequence[str]) -> list[Row]:
    """By their keys, so that two batches that change the same rows do not wait for each other. The last of several rows
    with the same key stays the last.
    """
    return sorted(rows, key=lambda row: repr([row.get(key) for key in keys])) if keys else rows
