"""The ledger in the DuckDB file of a sink: the table noetl_ledger."""

from __future__ import annotations

from noetl_activities.duckdb_driver import duckdb
from noetl_activities.sinks.ledger import RETENTION_DAYS

__all__ = ["claim", "ensure", "find", "prune", "store"]

_DDL = """
create table if not exists noetl_ledger (
    key varchar, n integer, outcome varchar, stored_at timestamp default current_timestamp, primary key (key, n)
)
"""
_OUTCOME = "select outcome from noetl_ledger where key = ? and n = ?"


def ensure(connection: duckdb.DuckDBPyConnection) -> None:
    """Create the ledger if it is missing."""
    connection.execute(_DDL)


def find(connection: duckdb.DuckDBPyConnection, key: str, n: int) -> str | None:
    """Return the outcome of a call; None if the ledger has none."""
    try:
        row = connection.execute(_OUTCOME, [key, n]).fetchone()
    except duckdb.CatalogException:
        return None  # the file has no ledger
    return None if row is None else row[0]


def store(connection: duckdb.DuckDBPyConnection, key: str, n: int, outcome: str) -> str | None:
    """Store the outcome of a call in the running transaction. If another one is already stored, returns that instead;
    otherwise None.
    """
    known_outcome = find(connection, key, n)
    if known_outcome is None:
        _insert(connection, key, n, outcome)
    return known_outcome


def claim(connection: duckdb.DuckDBPyConnection, key: str, n: int) -> bool:
    """Add an entry in the running transaction; False if it exists."""
    if connection.execute("select 1 from noetl_ledger where key = ? and n = ?", [key, n]).fetchone():
        return False
    _insert(connection, key, n, None)
    return True


def _insert(connection: duckdb.DuckDBPyConnection, key: str, n: int, outcome: str | None) -> None:
    connection.execute("insert into noetl_ledger (key, n, outcome) values (?, ?, ?)", [key, n, outcome])


def prune(connection: duckdb.DuckDBPyConnection) -> None:
    """Delete entries that are too old."""
    connection.execute("delete from noetl_ledger where stored_at < now() - to_days(?)", [RETENTION_DAYS])
