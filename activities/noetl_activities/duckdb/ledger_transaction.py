"""Commits the outcome of a call of the duckdb tool together with its writes (semantics.md 26a).

DuckDB does not report whether a transaction has written, so this depends on the kinds of the statements: a call that
only reads needs no ledger, and a call that attaches another file or manages its own transaction runs without one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from noetl_activities.duckdb.calls import RunningCall
from noetl_activities.duckdb.driver import duckdb
from noetl_activities.outcome import Outcome
from noetl_activities.outcome_ledger import LedgerResult, LedgerSlot, result_from_ledger
from noetl_activities.sinks import duckdb_ledger as ledger
from noetl_activities.sinks.ledger import is_time_to_prune

__all__ = ["LEDGER", "NON_TRANSACTIONAL", "run_with_ledger", "statement_kinds", "stores_outcome"]

LEDGER = "ledger"
"""The lock for creating the ledger, and for storing rows together with an entry."""

_READ_ONLY = frozenset({"SELECT", "EXPLAIN", "PRAGMA", "SET", "LOAD", "CALL"})
NON_TRANSACTIONAL = frozenset({"ATTACH", "DETACH", "TRANSACTION"})
"""Statements that do not belong in a transaction: an attached file stays attached after a rollback, and a transaction
can write to only one file.
"""

_TRANSACTION_REFUSALS = ("within a transaction", "Cannot CHECKPOINT", "a single transaction can only write to a single")
"""Texts in the error for a statement that cannot run in a transaction. DuckDB raises the same exception for conflicts
with other calls. A refused statement has no effect.
"""


def stores_outcome(connection: duckdb.DuckDBPyConnection, statements: Sequence[str]) -> bool:
    """Whether a call with these statements stores its outcome: it writes, and all in one transaction. Raises
    duckdb.Error if they cannot be parsed.
    """
    kinds = statement_kinds(connection, statements)
    return not kinds <= _READ_ONLY and not kinds & NON_TRANSACTIONAL


def statement_kinds(connection: duckdb.DuckDBPyConnection, statements: Sequence[str]) -> set[str]:
    """Return DuckDB's kinds of the statements. Raises duckdb.Error if they cannot be parsed."""
    return {str(statement.type.name) for text in statements for statement in connection.extract_statements(text)}


def run_with_ledger(
    connection: duckdb.DuckDBPyConnection, run: Callable[[], Outcome], slot: LedgerSlot, running_call: RunningCall
) -> LedgerResult:
    """Run the statements in one transaction, unless the ledger has their outcome. Raises the errors of ``run``.

    Only one process has the file open, so concurrent attempts run in it, one after the other: DuckDB would reject the
    second one at the unique key of the ledger, although the first may still fail.
    """
    with running_call.hold_lock((slot.key, slot.repetition)):
        with running_call.hold_lock(LEDGER):
            ledger.create_if_missing(connection)
        text = ledger.find_outcome(connection, slot.key, slot.repetition)
        if text is not None:
            return result_from_ledger(text)
        try:
            return _run_in_transaction(connection, run, slot)
        except duckdb.TransactionException as error:
            if any(phrase in str(error) for phrase in _TRANSACTION_REFUSALS):
                return LedgerResult(run())
            raise


def _run_in_transaction(
    connection: duckdb.DuckDBPyConnection, run: Callable[[], Outcome], slot: LedgerSlot
) -> LedgerResult:
    connection.begin()
    try:
        outcome = run()
        ledger.store_outcome(connection, slot.key, slot.repetition, slot.encode_outcome(outcome))
        if is_time_to_prune():
            ledger.prune(connection)
        connection.commit()
    except BaseException:
        with suppress(duckdb.Error):  # a commit that failed has ended the transaction
            connection.rollback()
        raise
    return LedgerResult(outcome, is_in_ledger=True)
