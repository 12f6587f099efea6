"""A few connections to Postgres that are kept open: one pool for each database and event loop of a process.

A pool belongs to the event loop that uses it, and has to be closed while that loop still runs. Whoever uses one (a
command, a worker, a test) does not know who else does, so the pools close themselves: each is held by an asynchronous
generator, and ``asyncio.run`` finishes those that are still open before it closes its loop.

A connection may be stale: its server was restarted, or a firewall dropped it. So statements have to be repeatable, and
one that loses its connection is retried once, on a fresh one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from noetl_temporal.database_errors import LOST_CONNECTION_ERRORS

__all__ = ["MAX_CONNECTIONS", "Connection", "with_connection"]

Connection: TypeAlias = "PoolConnectionProxy[asyncpg.Record]"
_Pool: TypeAlias = "asyncpg.Pool[asyncpg.Record]"

MAX_CONNECTIONS = 4
"""Of one pool. Whoever needs one more waits."""

IDLE_SECONDS = 10.0
"""After which an idle connection is closed, so that it takes no room from others on the server."""

STATEMENT_SECONDS = 60.0
"""After which a server that does not answer counts as lost."""

CONNECT_SECONDS = 15.0
CLOSE_SECONDS = 2.0
"""How long the end of an event loop waits for a server that does not answer."""

T = TypeVar("T")
_pools: dict[tuple[asyncio.AbstractEventLoop, str], tuple[_Pool, AsyncGenerator[_Pool]]] = {}


async def with_connection(dsn: str, statement: Callable[[Connection], Awaitable[T]]) -> T:
    """What the statement gives, which may be run twice. Raises asyncpg's errors, OSError."""
    pool = await _pool(dsn)
    try:
        return await _run(pool, statement)
    except LOST_CONNECTION_ERRORS:
        await pool.expire_connections()
    return await _run(pool, statement)


async def _run(pool: _Pool, statement: Callable[[Connection], Awaitable[T]]) -> T:
    async with pool.acquire() as connection:
        try:
            return await statement(connection)
        except asyncpg.PostgresError:
            raise
        except BaseException:
            with suppress(asyncpg.InterfaceError):  # it is gone already
                connection.terminate()  # otherwise to give it back waits for a server that may not answer
            raise


async def _pool(dsn: str) -> _Pool:
    place = asyncio.get_running_loop(), dsn
    if place not in _pools:
        keeper = _keeper(place)
        _pools[place] = await anext(keeper), keeper
    return _pools[place][0]


async def _keeper(place: tuple[asyncio.AbstractEventLoop, str]) -> AsyncGenerator[_Pool]:
    """Gives a pool, and closes it when the event loop ends."""
    pool = await asyncpg.create_pool(
        place[1],
        min_size=0,
        max_size=MAX_CONNECTIONS,
        max_inactive_connection_lifetime=IDLE_SECONDS,
        reset=_nothing,
        timeout=CONNECT_SECONDS,
        command_timeout=STATEMENT_SECONDS,
    )
    try:
        yield pool
    finally:
        _pools.pop(place, None)
        with suppress(*LOST_CONNECTION_ERRORS):
            async with asyncio.timeout(CLOSE_SECONDS):
                await pool.close()


async def _nothing(_connection: Any) -> None:
    """Our statements leave nothing in a session."""
