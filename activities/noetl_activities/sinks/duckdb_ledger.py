"""The ledger in the DuckDB file of a sink: the table noetl_ledger."""

from __future__ import annotations

from noetl_activities.duckdb.driver import duckdb
from noetl_activities.sinks.ledger import RETENTION_DAYS

__all__ = ["add_entry", "create_if_missing", "find_outcome", "prune", "store_outcome"]

_DDL = """
create table if not exists noetl_ledger (
    key varchar,
    repetition integer,
    outcome varchar,
    stored_at timestamp default current_timestamp,
    primary key (key, repetition)
)
"""
_ENTRY = "select 1 from noetl_ledger where key = ? and repetition = ?"
_INSERT = "insert into noetl_ledger (key, repetition, outcome) values (?, ?, ?)"
_OUTCOME = "select outcome from noetl_ledger where key = ? and repetition = ?"


def create_if_missing(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the ledger if it is missing."""
    connection.execute(_DDL)


def find_outcome(connection: duckdb.DuckDBPyConnection, key: str, repetition: int) -> str | None:
    """Return the outcome of a call; None if the ledger has none."""
    try:
        row = connection.execute(_OUTCOME, [key, repetition]).fetchone()
    except duckdb.CatalogException:
        return None  # the file has no ledger
    return None if row is None else row[0]


def store_outcome(connection: duckdb.DuckDBPyConnection, key: str, repetition: int, outcome: str) -> str | None:
    """Store the outcome of a call in the running transaction. Returns None, or the outcome that was already stored."""
    existing_outcome = find_outcome(connection, key, repetition)
    if existing_outcome is None:
        _insert(connection, key, repetition, outcome)
    return existing_outcome


def add_entry(connection: duckdb.DuckDBPyConnection, key: str, repetition: int) -> bool:
    """Add the entry of a sink in the running transaction. Returns False if the entry exists."""
    if connection.execute(_ENTRY, [key, repetition]).fetchone():
        return False
    _insert(connection, key, repetition, None)
    return True


def _insert(connection: duckdb.DuckDBPyConnection, key: str, repetition: int, outcome: str | None) -> None:
    connection.execute(_INSERT, [key, repetition, outcome])


def prune(connection: duckdb.DuckDBPyConnection) -> None:
    """Delete entries older than RETENTION_DAYS."""
    connection.execute("delete from noetl_ledger where stored_at < now() - to_days(?)", [RETENTION_DAYS])
