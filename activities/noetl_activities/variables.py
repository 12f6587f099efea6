"""Names of the environment variables that more than one part of a deployment reads. Commands that only name them need
none of the modules which act on them.
"""

from __future__ import annotations

__all__ = [
    "CREDENTIALS_VARIABLE",
    "DEFAULT_CREDENTIAL_VARIABLE",
    "DSN_VARIABLE",
    "DUCKDB_DIRECTORIES_VARIABLE",
    "HOME_VARIABLE",
    "PORTS_VARIABLE",
]

CREDENTIALS_VARIABLE = "NOETL_CREDENTIALS"
"""The file with the credentials that playbooks name."""

DEFAULT_CREDENTIAL_VARIABLE = "NOETL_DEFAULT_CREDENTIAL"
"""The name of the credential of postgres tasks and sinks that name none."""

DSN_VARIABLE = "NOETL_POSTGRES"
"""The DSN of the event log's Postgres."""

DUCKDB_DIRECTORIES_VARIABLE = "NOETL_DUCKDB_DIRECTORIES"
"""Absolute directories that SQL of DuckDB may use, with ``:`` between them."""

HOME_VARIABLE = "NOETL_HOME"
"""The folder of the stack, in which executions have their files as well."""

PORTS_VARIABLE = "NOETL_STACK_PORTS"
"""The stack's own ports: numbers, by comma."""
