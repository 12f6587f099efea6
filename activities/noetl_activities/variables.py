"""Names of environment variables that several modules read. They are separate, so that commands can mention them
without importing the modules that read them.
"""

from __future__ import annotations

__all__ = [
    "CREDENTIALS_VARIABLE",
    "CREDENTIAL_PREFIX",
    "DEFAULT_CREDENTIAL_VARIABLE",
    "DSN_VARIABLE",
    "DUCKDB_DIRECTORIES_VARIABLE",
    "HOME_VARIABLE",
    "HTTP_ALLOW_VARIABLE",
    "STACK_PORTS_VARIABLE",
    "TEMPORAL_ADDRESS_VARIABLE",
]

TEMPORAL_ADDRESS_VARIABLE = "TEMPORAL_ADDRESS"
"""The HOST:PORT of Temporal."""

CREDENTIALS_VARIABLE = "NOETL_CREDENTIALS"
"""The file with the credentials that playbooks name."""

CREDENTIAL_PREFIX = "NOETL_CREDENTIAL_"
"""The beginning of a variable with one credential; the name of the credential follows in capital letters."""

DEFAULT_CREDENTIAL_VARIABLE = "NOETL_DEFAULT_CREDENTIAL"
"""The name of the credential for postgres tasks and sinks that name none."""

DSN_VARIABLE = "NOETL_POSTGRES"
"""The DSN of the event log's Postgres."""

DUCKDB_DIRECTORIES_VARIABLE = "NOETL_DUCKDB_DIRECTORIES"
"""The directories that SQL of DuckDB may access: absolute paths, separated by ``:``."""

HOME_VARIABLE = "NOETL_HOME"
"""The folder of the stack, which also contains the DuckDB files of executions."""

HTTP_ALLOW_VARIABLE = "NOETL_HTTP_ALLOW"
"""Hosts and networks to which http calls may connect although they are not public, separated by commas."""

STACK_PORTS_VARIABLE = "NOETL_STACK_PORTS"
"""The ports of the stack: numbers separated by commas."""
