"""One DuckDB process per database, shared by concurrent calls and kept for later ones while a worker runs.

DuckDB allows a single process to open a file for writing, so all calls on a file share a process. Starting one takes a
tenth of a second, so an idle process is kept for a while, with the file closed (instance.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary

from noetl_activities.duckdb.location import DatabaseFile
from noetl_activities.duckdb.process import DuckdbProcess, start_process
from noetl_activities.idle_pool import keep_open

__all__ = ["MAX_IDLE", "duckdb_process", "pooled_processes"]

IDLE_SECONDS = 10.0

MAX_IDLE = 4
"""Maximum number of idle processes of a worker; each uses about 60 MB."""


class _PooledProcess:
    """The process of one database. ``user_count`` is the number of calls that use it, ``idle_since`` the loop time."""

    def __init__(self, file: DatabaseFile) -> None:
        self.user_count = 0
        self.idle_since = 0.0
        self._starting = asyncio.create_task(start_process(file))

    async def wait_until_started(self) -> DuckdbProcess:
        """Return the process once it has started."""
        return await asyncio.shield(self._starting)

    def is_usable(self) -> bool:
        if not self._starting.done():
            return True
        return (
            not self._starting.cancelled() and not self._starting.exception() and not self._starting.result().has_ended
        )

    async def close(self) -> None:
        done, _ = await asyncio.wait([self._starting])
        for process in done:
            if process.exception() is None:
                await process.result().close()


class _ProcessPool:
    """The processes of one event loop, an idle_pool.IdlePool."""

    def __init__(self) -> None:
        self.keep_open_count = 0
        self.by_file: dict[DatabaseFile, _PooledProcess] = {}

    def acquire(self, file: DatabaseFile) -> _PooledProcess:
        pooled_process = self.by_file.get(file)
        if pooled_process is None or not pooled_process.is_usable():
            pooled_process = self.by_file[file] = _PooledProcess(file)
        pooled_process.user_count += 1
        return pooled_process

    async def release(self, file: DatabaseFile, pooled_process: _PooledProcess) -> None:
        pooled_process.user_count -= 1
        if pooled_process.user_count:
            return
        pooled_process.idle_since = _now()
        if not (self.keep_open_count and pooled_process.is_usable() and self.by_file.get(file) is pooled_process):
            await self._close(file, pooled_process)
        elif len(idle := self._idle()) > MAX_IDLE:
            await self._close(*idle[0])

    async def close_older(self, seconds: float) -> None:
        """End processes that have been idle for at least ``seconds``."""
        for file, pooled_process in self._idle():
            if _now() - pooled_process.idle_since >= seconds:
                await self._close(file, pooled_process)

    def _idle(self) -> list[tuple[DatabaseFile, _PooledProcess]]:
        idle = [
            (file, pooled_process) for file, pooled_process in self.by_file.items() if not pooled_process.user_count
        ]
        return sorted(idle, key=lambda item: item[1].idle_since)

    async def _close(self, file: DatabaseFile, pooled_process: _PooledProcess) -> None:
        """Remove a process from the pool and end it, even if the caller is cancelled."""
        if self.by_file.get(file) is pooled_process:
            del self.by_file[file]
        await asyncio.shield(asyncio.create_task(pooled_process.close()))


_POOLS: WeakKeyDictionary[asyncio.AbstractEventLoop, _ProcessPool] = WeakKeyDictionary()


@asynccontextmanager
async def duckdb_process(file: DatabaseFile) -> AsyncGenerator[DuckdbProcess]:
    """Return the process of this database for one call. Raises ConfigError."""
    pool = _POOLS.setdefault(asyncio.get_running_loop(), _ProcessPool())
    pooled_process = pool.acquire(file)
    try:
        yield await pooled_process.wait_until_started()
    finally:
        await pool.release(file, pooled_process)


@asynccontextmanager
async def pooled_processes() -> AsyncGenerator[None]:
    """Keep idle processes while the block runs. Without it, a process ends with the last call that uses it."""
    pool = _POOLS.setdefault(asyncio.get_running_loop(), _ProcessPool())
    async with keep_open(pool, IDLE_SECONDS):
        yield


def _now() -> float:
    return asyncio.get_running_loop().time()
