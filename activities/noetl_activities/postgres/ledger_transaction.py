"""Commits the outcome of a SQL call together with its writes (semantics.md 26a).

    ledger ──► begin ──► statements ──► wrote something? ──► entry ──► commit
      │ has the outcome: reuse it                              │ another attempt was first: roll back, reuse its outcome

The ledger is read before the transaction begins, and only created if something was written, so a database that is
only read stays unchanged.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

import asyncpg

from noetl_activities.outcome import Outcome
from noetl_activities.outcome_ledger import LedgerResult, LedgerSlot, result_from_ledger
from noetl_activities.postgres.connect import Connection
from noetl_activities.postgres.errors import SQL_ERRORS
from noetl_activities.postgres.transaction import transaction
from noetl_activities.sinks import postgres_ledger as ledger
from noetl_activities.sinks.ledger import is_time_to_prune

__all__ = ["StatementsResult", "run_with_ledger"]

_READ_ONLY = ("SELECT", "SHOW", "EXPLAIN")
"""Command tags of statements that usually write nothing, unless they call a function that does."""


class StatementsResult(NamedTuple):
    """The outcome of the statements, and their command tags."""

    outcome: Outcome
    tags: Sequence[str]


class _AlreadyStoredError(Exception):
    """Another attempt of the call committed first. ``outcome`` is the JSON of its outcome."""

    def __init__(self, outcome: str) -> None:
        super().__init__()
        self.outcome = outcome


class _LedgerError(Exception):
    """The role may not write to the ledger, so the transaction failed."""


async def run_with_ledger(
    connection: Connection, run: Callable[[], Awaitable[StatementsResult]], slot: LedgerSlot
) -> LedgerResult:
    """Run the statements in one transaction, unless the ledger has their outcome. Raises the errors of ``run``."""
    access = await ledger.check_access(connection)
    text = await ledger.read_outcome(connection, slot.key, slot.repetition) if access == "usable" else None
    if text is not None:
        return result_from_ledger(text)
    try:
        result = await _run_and_store(connection, run, slot, access)
    except _AlreadyStoredError as error:
        return result_from_ledger(error.outcome)
    except _LedgerError:
        await ledger.warn_without_ledger(connection)
        async with transaction(connection):
            return LedgerResult((await run()).outcome)
    except asyncpg.PostgresError:
        text = await _find_outcome(connection, slot)
        if text is None:
            raise
        return result_from_ledger(text)
    if result.is_in_ledger and is_time_to_prune():
        await ledger.prune(connection)
    return result


async def _run_and_store(
    connection: Connection, run: Callable[[], Awaitable[StatementsResult]], slot: LedgerSlot, access: ledger.Access
) -> LedgerResult:
    async with transaction(connection):
        result = await run()
        is_in_ledger = await _store_outcome(connection, result, slot, access)
    return LedgerResult(result.outcome, is_in_ledger=is_in_ledger)


async def _store_outcome(
    connection: Connection, result: StatementsResult, slot: LedgerSlot, access: ledger.Access
) -> bool:
    """Store the outcome in the running transaction, if that has written something. Returns whether it was stored."""
    may_be_read_only = access != "usable" or all(tag.startswith(_READ_ONLY) for tag in result.tags)
    if may_be_read_only and not await ledger.has_written(connection):
        return False
    if access == "forbidden" or (access == "missing" and not await ledger.try_create(connection)):
        await ledger.warn_without_ledger(connection)
        return False
    try:
        stored_outcome = await ledger.store_outcome_if_written(
            connection, slot.key, slot.repetition, slot.encode_outcome(result.outcome)
        )
    except (asyncpg.InsufficientPrivilegeError, asyncpg.ReadOnlySQLTransactionError) as error:
        raise _LedgerError from error
    if stored_outcome.existing_outcome is not None:
        raise _AlreadyStoredError(stored_outcome.existing_outcome)
    return stored_outcome.is_in_ledger


async def _find_outcome(connection: Connection, slot: LedgerSlot) -> str | None:
    """Look up the outcome after an error: a concurrent attempt may have committed first, and caused the error."""
    with suppress(*SQL_ERRORS):
        return await ledger.find_outcome(connection, slot.key, slot.repetition)
    return None
