"""Announces a run that has just started to the mirrors, so that they do not wait for Temporal's list of runs.

The client that follows a run sends one NOTIFY for it. A mirror that misses it finds the run in Temporal's list later.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import msgspec
from asyncpg.pool import PoolConnectionProxy

from noetl_temporal.mirror.raw import WorkflowRun

__all__ = ["announce", "listening"]

CHANNEL = "noetl_run"


async def announce(log: asyncpg.Connection, run: WorkflowRun) -> None:
    """Announce the run to all mirrors that are listening. Raises asyncpg's errors."""
    await log.execute("SELECT pg_notify($1, $2)", CHANNEL, msgspec.json.encode(run._asdict()).decode())


@asynccontextmanager
async def listening(pool: asyncpg.Pool) -> AsyncGenerator[asyncio.Queue[WorkflowRun | None]]:
    """Listen for announcements while the block runs.

    Yields a queue of the announced runs, with None when the connection is lost. Raises asyncpg's errors, OSError.
    """
    runs = asyncio.Queue[WorkflowRun | None]()

    def on_notify(_connection: object, _pid: int, _channel: str, payload: object) -> None:
        run = _announced_run(str(payload))
        if run is not None:
            runs.put_nowait(run)

    def on_lost(_connection: object) -> None:
        runs.put_nowait(None)

    async with pool.acquire() as connection:
        connection.add_termination_listener(on_lost)
        await connection.add_listener(CHANNEL, on_notify)
        try:
            yield runs
        finally:
            await _stop_listening(connection, on_notify, on_lost)


async def _stop_listening(connection: PoolConnectionProxy, on_notify: Any, on_lost: Any) -> None:
    if not connection.is_closed():
        connection.remove_termination_listener(on_lost)
        await connection.remove_listener(CHANNEL, on_notify)


def _announced_run(payload: str) -> WorkflowRun | None:
    """Return the announced run; None for any other payload, as every user of the database can notify."""
    try:
        return WorkflowRun(**msgspec.json.decode(payload, type=dict[str, str]))
    except (msgspec.DecodeError, TypeError):
        return None
