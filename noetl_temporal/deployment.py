"""Errors of a deployment: what was tried, why it failed, and the remedy.

Problems with Temporal are in temporal_errors.py, because that module imports its client.

No message contains a part of a DSN that may belong to its password: the DSN is parsed strictly before the driver reads
it, and the driver's own messages about its settings are not shown.
"""

from __future__ import annotations

import asyncpg

from noetl_activities.postgres.dsn import DsnError, dsn_location
from noetl_activities.postgres.protocol import guard_logins
from noetl_temporal.database_errors import DATABASE_ERRORS, reason_of

__all__ = ["CONNECT_SECONDS", "DeploymentError", "check_postgres", "dsn_error", "postgres_error"]

CONNECT_SECONDS = 10.0

guard_logins()  # on import, so that every connection to the event log is guarded

_DSN_FORMAT = "postgresql://USER:PASSWORD@HOST:PORT/DATABASE"


class DeploymentError(Exception):
    """Temporal or Postgres cannot be used as configured in the environment. The message contains the remedy."""


async def check_postgres(dsn: str) -> None:
    """Connect once. Raises DeploymentError."""
    try:
        dsn_location(dsn)
        connection = await asyncpg.connect(dsn, timeout=CONNECT_SECONDS)
    except (ValueError, *DATABASE_ERRORS) as error:
        raise postgres_error(error, dsn) from error
    await connection.close()


def dsn_error(error: DsnError) -> DeploymentError:
    """Return the error for an invalid DSN of the event log, with its position."""
    return DeploymentError(f"NOETL_POSTGRES is not a valid DSN: {error}. Its form is {_DSN_FORMAT}")


def postgres_error(error: Exception, dsn: str) -> DeploymentError:
    """Return the error that says why Postgres cannot be used. It never contains the password of the DSN."""
    try:
        location = dsn_location(dsn) if dsn else ""
    except DsnError as invalid_dsn:
        return dsn_error(invalid_dsn)
    server = f"Postgres at {location}" if location else "Postgres"
    match error:
        case asyncpg.UndefinedTableError() | asyncpg.InvalidSchemaNameError() | asyncpg.UndefinedColumnError():
            return DeploymentError(f"{server} has no event log of this version ({error}): run `noetl setup`")
        case TimeoutError():
            reason = f"timed out after {CONNECT_SECONDS:g} s"
        case asyncpg.InvalidAuthorizationSpecificationError():
            reason = f"the login was refused ({error})"
        case ValueError():
            reason = "the parameters of the DSN, or the PG* variables of this process, are not known to Postgres"
        case _:
            reason = reason_of(error)
    return DeploymentError(f"cannot use {server}: {reason}. Check NOETL_POSTGRES: {_DSN_FORMAT}")
