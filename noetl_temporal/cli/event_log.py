"""The event log for a command that looks at it: no answer is told, never waited for without end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import asyncpg

from noetl_temporal.deployment import CONNECT_SECONDS, postgres_problem

__all__ = ["EventLog", "event_log", "opened_log"]

ANSWER_SECONDS = CONNECT_SECONDS
"""How long is waited for a connection, and for each answer."""

CLOSE_SECONDS = 1.0


class EventLog:
    """One connection, made when it is first needed and again when it was lost; its users take turns."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._turn = asyncio.Lock()
        self._connection: asyncpg.Connection | None = None

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[asyncpg.Connection]:
        """Ours alone until it is left. Raises DeploymentError, also for what goes wrong inside."""
        async with self._turn:
            try:
                yield await self._connected()
            except (OSError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
                self._drop()
                raise postgres_problem(error, self._dsn) from error

    async def _connected(self) -> asyncpg.Connection:
        if self._connection is None or self._connection.is_closed():
            self._connection = await asyncpg.connect(self._dsn, timeout=ANSWER_SECONDS, command_timeout=ANSWER_SECONDS)
        return self._connection

    def _drop(self) -> None:
        """The next user connects anew: what went wrong may be the connection itself."""
        if self._connection is not None:
            self._connection.terminate()

    async def close(self) -> None:
        """Let go of the connection; one that does not answer is cut off."""
        if self._connection is not None:
            with contextlib.suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                await self._connection.close(timeout=CLOSE_SECONDS)


@asynccontextmanager
async def opened_log(dsn: str | None) -> AsyncGenerator[EventLog | None]:
    """Of the database at ``dsn``; None where none is known."""
    if dsn is None:
        yield None
        return
    log = EventLog(dsn)
    try:
        yield log
    finally:
        await log.close()


@asynccontextmanager
async def event_log(dsn: str) -> AsyncGenerator[asyncpg.Connection]:
    """Connected for as long as it is entered. Raises DeploymentError, also for what goes wrong inside."""
    log = EventLog(dsn)
    try:
        async with log.connection() as connection:
            yield connection
    finally:
        await log.close()
