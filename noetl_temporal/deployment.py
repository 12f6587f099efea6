"""What can be wrong with a deployment, told to the person who set it up: what was tried, why it failed, what to do.

What Temporal says is in temporal_problems.py, which brings its client along; asyncpg raises a dozen classes.
"""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import asyncpg

from noetl_temporal.database_errors import DATABASE_ERRORS

__all__ = ["CONNECT_SECONDS", "DeploymentError", "check_postgres", "postgres_problem"]

CONNECT_SECONDS = 10.0


class DeploymentError(Exception):
    """Temporal or Postgres cannot be used as the environment names them. The message says what to do."""


async def check_postgres(dsn: str) -> None:
    """Connect once. Raises DeploymentError."""
    try:
        connection = await asyncpg.connect(dsn, timeout=CONNECT_SECONDS)
    except (ValueError, *DATABASE_ERRORS) as error:
        raise postgres_problem(error, dsn) from error
    await connection.close()


def postgres_problem(error: Exception, dsn: str) -> DeploymentError:
    """Why Postgres cannot be used; the password of the DSN is not told."""
    match error:
        case asyncpg.UndefinedTableError() | asyncpg.InvalidSchemaNameError() | asyncpg.UndefinedColumnError():
            return DeploymentError(f"{_place(dsn)} has no event log of this version ({error}): run `noetl setup`")
        case TimeoutError() | asyncio.TimeoutError():
            why = f"no answer within {CONNECT_SECONDS:g} s"
        case ConnectionRefusedError():
            why = "connection refused: nothing listens there"
        case asyncpg.InvalidAuthorizationSpecificationError():
            why = f"the login was refused ({error})"
        case _:
            why = str(error) or type(error).__name__
    return DeploymentError(
        f"cannot use {_place(dsn)}: {why}. Check NOETL_POSTGRES: postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
    )


def _place(dsn: str) -> str:
    try:
        parts = urlsplit(dsn)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "Postgres"
    return f"Postgres at {parts.hostname}{port}{parts.path}" if parts.hostname else "Postgres"
