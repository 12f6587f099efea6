"""A connection to the event log for a command that looks at it: no answer is told, never waited for without end."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import asyncpg

from noetl_temporal.deployment import CONNECT_SECONDS, postgres_problem

__all__ = ["event_log"]

ANSWER_SECONDS = CONNECT_SECONDS
"""How long is waited for a connection, and for each answer."""

CLOSE_SECONDS = 1.0


@asynccontextmanager
async def event_log(dsn: str) -> AsyncGenerator[asyncpg.Connection]:
    """Connected for as long as it is entered. Raises DeploymentError, also for what goes wrong inside."""
    try:
        connection = await asyncpg.connect(dsn, timeout=ANSWER_SECONDS, command_timeout=ANSWER_SECONDS)
        try:
            yield connection
        finally:
            with contextlib.suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                await connection.close(timeout=CLOSE_SECONDS)  # then it is cut off
    except (OSError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise postgres_problem(error, dsn) from error
