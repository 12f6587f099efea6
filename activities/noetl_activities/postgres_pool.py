"""Connections that the Postgres sinks of many calls use one after the other, while a frame runs (semantics.md 26b).

A pool belongs to whoever opens it and to the calls made inside: outside of ``pooling`` every call connects by itself.
Only statements of ours run on a lent connection; a playbook's own SQL could leave settings behind. A connection is lent
again only after its use went well.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from contextvars import ContextVar

from noetl_activities.postgres_connect import SQL_ERRORS, Connection, arguments_of, connected, opened
from noetl_activities.tool import Json, ToolContext

__all__ = ["MAX_CONNECTIONS", "lent", "pooling"]

MAX_CONNECTIONS = 8
"""Of one pool for one credential. More uses at once wait."""

CHECK_SECONDS = 1.0
"""A connection that was idle for longer is asked whether it lives: its server may have been restarted."""


class _Connections:
    """Those of one credential."""

    def __init__(self) -> None:
        self.free = asyncio.Semaphore(MAX_CONNECTIONS)
        self.idle: list[tuple[Connection, float]] = []

    async def take(self) -> Connection | None:
        """An idle connection that lives."""
        while self.idle:
            connection, since = self.idle.pop()
            if connection.is_closed():
                continue
            if _now() - since < CHECK_SECONDS or await _lives(connection):
                return connection
        return None


class _Pool:
    def __init__(self) -> None:
        self._of: defaultdict[str, _Connections] = defaultdict(_Connections)

    @asynccontextmanager
    async def lend(self, auth: Json, config: dict[str, Json], context: ToolContext) -> AsyncGenerator[Connection]:
        arguments = await arguments_of(auth, config, context)
        found = self._of[repr(sorted(arguments.items()))]
        async with found.free:
            connection = await found.take() or await opened(arguments)
            try:
                yield connection
            except BaseException:
                connection.terminate()
                raise
            found.idle.append((connection, _now()))

    async def close(self) -> None:
        for found in self._of.values():
            for connection, _ in found.idle:
                connection.terminate()


_POOL: ContextVar[_Pool | None] = ContextVar("_POOL", default=None)


@asynccontextmanager
async def pooling() -> AsyncGenerator[None]:
    """Calls that begin in this block, and in tasks that begin there, share their sinks' connections."""
    pool = _Pool()
    token = _POOL.set(pool)
    try:
        yield
    finally:
        _POOL.reset(token)
        await pool.close()


@asynccontextmanager
async def lent(
    auth: Json, config: dict[str, Json], context: ToolContext, *, with_codecs: bool = True
) -> AsyncGenerator[Connection]:
    """A connection for statements of ours, from the pool if there is one; else as ``connected``. Raises the same."""
    pool = _POOL.get()
    if pool is None:
        async with connected(auth, config, context, with_codecs=with_codecs) as connection:
            yield connection
    else:
        async with pool.lend(auth, config, context) as connection:
            yield connection


async def _lives(connection: Connection) -> bool:
    try:
        await connection.execute("select")
    except SQL_ERRORS:
        connection.terminate()
        return False
    return True


def _now() -> float:
    return asyncio.get_running_loop().time()
