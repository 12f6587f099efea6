"""Pools of connections to Postgres: one for each database and event loop of a process.

A pool is bound to its event loop and must be closed before that loop ends. No single user owns a pool, so each belongs
to an async generator, which ``asyncio.run`` closes at shutdown.

A connection may be stale (server restarted, dropped by a firewall), so operations must be idempotent: one that loses
its connection is retried once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from noetl_activities.postgres.protocol import guard_logins
from noetl_temporal.database_errors import LOST_CONNECTION_ERRORS, reason_of

__all__ = ["MAX_CONNECTIONS", "Connection", "run_on_pool"]

Connection: TypeAlias = "PoolConnectionProxy[asyncpg.Record]"
_Pool: TypeAlias = "asyncpg.Pool[asyncpg.Record]"
_Key: TypeAlias = tuple[asyncio.AbstractEventLoop, str]

guard_logins()

MAX_CONNECTIONS = 4
"""The size of one pool; further callers wait for a free connection."""

IDLE_SECONDS = 10.0
"""Seconds after which an idle connection is closed, to free its slot on the server."""

STATEMENT_SECONDS = 60.0
"""The timeout of a statement; a connection that exceeds it counts as lost."""

CONNECT_SECONDS = 15.0
CLOSE_SECONDS = 2.0
"""How long the shutdown of an event loop waits for a server that does not answer."""

T = TypeVar("T")
_pools: dict[_Key, tuple[_Pool, AsyncGenerator[_Pool]]] = {}
"""Pools with their generators. A generator without a reference would be closed immediately, with its pool."""


async def run_on_pool(dsn: str, operation: Callable[[Connection], Awaitable[T]]) -> T:
    """Run ``operation`` on a pooled connection and return its result. If the connection is lost, run it once more on a
    fresh one, so it must be idempotent. Raises asyncpg's errors, OSError.
    """
    pool = await _pool(dsn)
    try:
        return await _run_once(pool, operation)
    except LOST_CONNECTION_ERRORS:
        await pool.expire_connections()
    try:
        return await _run_once(pool, operation)
    except asyncpg.InternalClientError as error:
        raise asyncpg.InterfaceError(f"Postgres failed: {reason_of(error)}") from error


async def _run_once(pool: _Pool, operation: Callable[[Connection], Awaitable[T]]) -> T:
    async with pool.acquire() as connection:
        try:
            return await operation(connection)
        except asyncpg.PostgresError:
            raise
        except BaseException:
            with suppress(asyncpg.InterfaceError):  # it is gone already
                connection.terminate()  # otherwise its release waits for a server that may not respond
            raise


async def _pool(dsn: str) -> _Pool:
    key = asyncio.get_running_loop(), dsn
    if key not in _pools:
        lifetime = _pool_lifetime(key)
        # This does not suspend, as no connection is made: no other task creates a pool for the key meanwhile.
        _pools[key] = await anext(lifetime), lifetime
    return _pools[key][0]


async def _pool_lifetime(key: _Key) -> AsyncGenerator[_Pool]:
    """Yield the pool, and close it when asyncio finalizes this generator at loop shutdown."""
    pool = await asyncpg.create_pool(
        key[1],
        min_size=0,  # connect on demand: see _pool
        max_size=MAX_CONNECTIONS,
        max_inactive_connection_lifetime=IDLE_SECONDS,
        reset=_skip_reset,
        timeout=CONNECT_SECONDS,
        command_timeout=STATEMENT_SECONDS,
    )
    try:
        yield pool
    finally:
        _pools.pop(key, None)
        with suppress(*LOST_CONNECTION_ERRORS):
            async with asyncio.timeout(CLOSE_SECONDS):
                await pool.close()


async def _skip_reset(_connection: Any) -> None:
    """Skip asyncpg's session reset: our operations leave no session state."""
