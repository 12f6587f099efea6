"""Tell the mirrors of a run that has just been started, so that its first rows need not wait for the visibility list.

By NOTIFY, once a run, from whoever watches it. A mirror that hears nothing finds the run in the list all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import msgspec
from asyncpg.pool import PoolConnectionProxy

from noetl_temporal.mirror.raw import Run

__all__ = ["announce", "announced"]

CHANNEL = "noetl_run"


async def announce(log: asyncpg.Connection, run: Run) -> None:
    """Tell whoever listens. Raises asyncpg's errors."""
    await log.execute("SELECT pg_notify($1, $2)", CHANNEL, msgspec.json.encode(run._asdict()).decode())


@asynccontextmanager
async def announced(pool: asyncpg.Pool) -> AsyncGenerator[asyncio.Queue[Run | None]]:
    """The runs of which somebody tells, while the block runs; None when the connection is lost.

    Raises asyncpg's errors, OSError."""
    heard = asyncio.Queue[Run | None]()

    def hear(_connection: object, _pid: int, _channel: str, payload: object) -> None:
        run = _run(str(payload))
        if run is not None:
            heard.put_nowait(run)

    def lose(_connection: object) -> None:
        heard.put_nowait(None)

    async with pool.acquire() as connection:
        connection.add_termination_listener(lose)
        await connection.add_listener(CHANNEL, hear)
        try:
            yield heard
        finally:
            await _leave(connection, hear, lose)


async def _leave(connection: PoolConnectionProxy, hear: Any, lose: Any) -> None:
    if not connection.is_closed():
        connection.remove_termination_listener(lose)
        await connection.remove_listener(CHANNEL, hear)


def _run(payload: str) -> Run | None:
    """Anybody who may use the database can notify."""
    try:
        return Run(**msgspec.json.decode(payload, type=dict[str, str]))
    except (msgspec.DecodeError, TypeError):
        return None
