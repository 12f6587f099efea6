"""The database of a DuckDB process: opened by the first call, closed after the last.

The file is closed between calls, so other programs of the user may open it. Concurrent calls share one instance, each
with a connection of its own.

The permissions of SQL are set before any SQL runs, and then locked. DuckDB resolves links and ``..`` before it compares
a path with ``allowed_directories``, for everything that it reads or writes: files, COPY, EXPORT, ATTACH, logs,
profiles. Only built-in extensions are available: others are foreign code, and most of them open connections that bypass
the address guard.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager

from noetl_activities.duckdb.driver import duckdb
from noetl_activities.duckdb.wire import MEMORY, Setup

__all__ = ["Instance"]

MAX_SPILL_SIZE = "16GB"
"""The maximum size of the data that a query writes to disk because it needs more memory than the limit."""

CONFIG = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_unsigned_extensions": "false",
    "allow_persistent_secrets": "false",  # they are files in the user's home
    "python_enable_replacements": "false",  # a table name would read this module's variables
    "max_temp_directory_size": MAX_SPILL_SIZE,
}

CHANGEABLE = (
    "threads",
    "TimeZone",
    "Calendar",
    "default_collation",
    "default_null_order",
    "default_order",
    "ieee_floating_point_ops",
    "integer_division",
    "old_implicit_casting",
    "order_by_non_integer_literal",
    "pivot_limit",
    "preserve_insertion_order",
    "scalar_subquery_error_on_multiple_rows",
)
"""The settings that SQL may change: they affect how a query is computed, not what it can access. The number of threads
is limited by the address space of the process.
"""


class Instance:
    """The database of a DuckDB process."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._lock = threading.Lock()
        self._user_count = 0
        self._root: duckdb.DuckDBPyConnection | None = None

    @contextmanager
    def connection(self) -> Generator[duckdb.DuckDBPyConnection]:
        """Open a connection for one call. Raises duckdb.Error if the database cannot be opened."""
        if self._setup.database == MEMORY:
            with _open_database(self._setup) as connection:
                yield connection
            return
        connection = self._open_connection()
        try:
            yield connection
        finally:
            self._close_connection(connection)

    def _open_connection(self) -> duckdb.DuckDBPyConnection:
        with self._lock:
            if self._root is None:
                self._root = _open_database(self._setup)
            connection = self._root.cursor()
            self._user_count += 1
            return connection

    def _close_connection(self, connection: duckdb.DuckDBPyConnection) -> None:
        with self._lock:
            connection.close()
            self._user_count -= 1
            if self._root is not None and not self._user_count:
                self._root.close()
                self._root = None


def _open_database(setup: Setup) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(setup.database, config={**CONFIG, "memory_limit": f"{setup.memory}B"})
    try:
        connection.execute(f"set global allowed_directories = {_sql_list(setup.directories)}")
        connection.execute(f"set global allowed_configs = {_sql_list(CHANGEABLE)}")
        connection.execute("set global enable_external_access = false")
        connection.execute("set global lock_configuration = true")
    except BaseException:
        connection.close()
        raise
    return connection


def _sql_list(texts: tuple[str, ...]) -> str:
    return "[" + ", ".join("'" + text.replace("'", "''") + "'" for text in texts) + "]"
