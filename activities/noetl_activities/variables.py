"""Names of environment variables that several parts of a deployment read. Separate, so that commands can mention them
without importing the modules that use them.
"""

from __future__ import annotations

__all__ = ["CREDENTIALS_VARIABLE", "DSN_VARIABLE", "DUCKDB_DIRECTORIES_VARIABLE", "HOME_VARIABLE", "PORTS_VARIABLE"]

CREDENTIALS_VARIABLE = "NOETL_CREDENTIALS"
"""The file with the credentials that playbooks name."""

DSN_VARIABLE = "NOETL_POSTGRES"
"""The DSN of the event log's Postgres."""

DUCKDB_DIRECTORIES_VARIABLE = "NOETL_DUCKDB_DIRECTORIES"
"""Absolute directories that DuckDB's SQL may access, separated by ``:``."""

HOME_VARIABLE = "NOETL_HOME"
"""The folder of the stack, which also has the files of executions."""

PORTS_VARIABLE = "NOETL_STACK_PORTS"
"""The ports of the stack: numbers separated by commas."""
