"""Connections of commands to the event log. Connecting and queries time out; failures raise DeploymentError."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import asyncpg

from noetl_temporal.database_errors import DATABASE_ERRORS
from noetl_temporal.deployment import CONNECT_SECONDS, postgres_error

__all__ = ["EventLog", "log_connection", "open_event_log"]

TIMEOUT_SECONDS = CONNECT_SECONDS
"""Timeout of connecting, and of each query."""

CLOSE_SECONDS = 1.0


class EventLog:
    """One connection, opened at its first use and reopened after it was lost, for one user at a time."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._lock = asyncio.Lock()
        self._connection: asyncpg.Connection | None = None

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[asyncpg.Connection]:
        """Yield the connection for exclusive use. Raises DeploymentError, also for database errors in the block."""
        async with self._lock:
            try:
                yield await self._connect()
            except DATABASE_ERRORS as error:
                self._drop()
                raise postgres_error(error, self._dsn) from error

    async def _connect(self) -> asyncpg.Connection:
        if self._connection is None or self._connection.is_closed():
            try:
                self._connection = await asyncpg.connect(
                    self._dsn, timeout=TIMEOUT_SECONDS, command_timeout=TIMEOUT_SECONDS
                )
            except ValueError as error:
                raise postgres_error(error, self._dsn) from error
        return self._connection

    def _drop(self) -> None:
        """Terminate the connection, which may have caused the error; the next user reconnects."""
        if self._connection is not None:
            self._connection.terminate()

    async def close(self) -> None:
        """Close the connection; one that does not respond is terminated."""
        if self._connection is not None:
            with contextlib.suppress(*DATABASE_ERRORS):
                await self._connection.close(timeout=CLOSE_SECONDS)


@asynccontextmanager
async def open_event_log(dsn: str | None) -> AsyncGenerator[EventLog | None]:
    """Yield the event log at ``dsn``, and close it at the end of the block; yields None if ``dsn`` is None."""
    if dsn is None:
        yield None
        return
    log = EventLog(dsn)
    try:
        yield log
    finally:
        await log.close()


@asynccontextmanager
async def log_connection(dsn: str) -> AsyncGenerator[asyncpg.Connection]:
    """Yield a connection to the event log at ``dsn``. Raises DeploymentError, also for database errors in the block."""
    log = EventLog(dsn)
    try:
        async with log.connection() as connection:
            yield connection
    finally:
        await log.close()
