"""A pool of Postgres connections, which a worker keeps open for later calls with the same credential.

Connecting costs more than most statements. Before a connection is reused, settings, role, temporary tables, locks and
prepared statements are discarded (DISCARD ALL), which is why asyncpg must not cache statements. A connection whose call
failed, was cancelled or left a transaction open is closed instead.

At most ``MAX_OPEN`` connections per credential are open; calls that need another one wait. Postgres accepts 100
connections by default. At most ``MAX_IDLE`` idle connections are kept, for ``IDLE_SECONDS``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary, WeakValueDictionary

import asyncpg

from noetl_activities.idle_pool import keep_open

__all__ = ["Connection", "ConnectionPool", "close_quietly", "connection_pool", "pooled_connections"]

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

MAX_OPEN = 64
MAX_IDLE = 16
"""Maximum number of idle connections per credential and worker."""

IDLE_SECONDS = 10.0
TRUSTED_SECONDS = 1.0
"""A connection that was idle for longer is tested before it is reused."""

CLOSE_SECONDS = 5.0
CHECK_SECONDS = 5.0

_POOLS: WeakKeyDictionary[asyncio.AbstractEventLoop, ConnectionPool] = WeakKeyDictionary()


class _IdleConnection(NamedTuple):
    connection: Connection
    idle_since: float


class ConnectionPool:
    """The idle connections of one event loop, by their arguments, and the slots for open ones."""

    def __init__(self) -> None:
        self.keep_open_count = 0  # see idle_pool.py
        self._idle: dict[frozenset[tuple[str, Any]], list[_IdleConnection]] = {}
        self._slots: WeakValueDictionary[frozenset[tuple[str, Any]], asyncio.Semaphore] = WeakValueDictionary()

    def slots(self, arguments: Mapping[str, Any]) -> asyncio.Semaphore:
        """Return the semaphore that limits open connections with these arguments, to be held while one is in use."""
        key = frozenset(arguments.items())
        slots = self._slots.get(key)
        if slots is None:
            slots = self._slots[key] = asyncio.Semaphore(MAX_OPEN)
        return slots

    async def acquire(self, arguments: Mapping[str, Any]) -> Connection | None:
        """Return the connection that was used last and is still alive; None if there is none."""
        idle = self._idle.get(frozenset(arguments.items()), [])
        while idle:
            connection, idle_since = idle.pop()
            if _now() - idle_since < TRUSTED_SECONDS and not connection.is_closed():
                return connection
            if await _is_alive(connection):
                return connection
        return None

    async def release(self, arguments: Mapping[str, Any], connection: Connection) -> None:
        """Keep the connection for the next call, if it can be reset."""
        if not await _reset(connection):
            return
        idle = self._idle.setdefault(frozenset(arguments.items()), [])
        if self.keep_open_count and len(idle) < MAX_IDLE:
            idle.append(_IdleConnection(connection, _now()))
        else:
            await close_quietly(connection)

    async def close_older(self, seconds: float) -> None:
        """Close connections that have been idle for at least ``seconds``."""
        for arguments, idle in list(self._idle.items()):
            old = [entry for entry in idle if _now() - entry.idle_since >= seconds]
            idle[:] = [entry for entry in idle if entry not in old]
            if not idle:
                del self._idle[arguments]
            await asyncio.gather(*(close_quietly(entry.connection) for entry in old), return_exceptions=True)


@asynccontextmanager
async def pooled_connections() -> AsyncGenerator[None]:
    """Keep idle connections while the block runs. Without it, each call opens a connection."""
    pool = _POOLS.setdefault(asyncio.get_running_loop(), ConnectionPool())
    async with keep_open(pool, IDLE_SECONDS):
        yield


def connection_pool() -> ConnectionPool | None:
    """Return the pool of the running event loop; None outside of ``pooled_connections``."""
    pool = _POOLS.get(asyncio.get_running_loop())
    return pool if pool is not None and pool.keep_open_count else None


async def close_quietly(connection: Connection) -> None:
    """Close a connection and ignore errors. asyncpg raises if the server does not respond, which would replace the
    original error or cancellation.
    """
    with suppress(Exception):
        await connection.close(timeout=CLOSE_SECONDS)


async def _is_alive(connection: Connection) -> bool:
    """Test a connection, and close it if it does not respond."""
    return await _execute(connection, "select")


async def _reset(connection: Connection) -> bool:
    if connection.is_in_transaction():
        await close_quietly(connection)
        return False
    return await _execute(connection, "discard all")


async def _execute(connection: Connection, statement: str) -> bool:
    """Execute a statement and forget the types that the connection has cached: they may have changed.

    Returns False if that failed; the connection is then closed.
    """
    if connection.is_closed():
        return False
    try:
        await connection.execute(statement, timeout=CHECK_SECONDS)
        await connection.reload_schema_state()
    except BaseException as error:
        connection.terminate()
        if not isinstance(error, Exception):
            raise
        return False
    return True


def _now() -> float:
    return asyncio.get_running_loop().time()
