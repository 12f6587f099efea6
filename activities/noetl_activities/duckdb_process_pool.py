"""One DuckDB process per database, shared by concurrent calls and kept for later ones while a worker runs.

DuckDB allows a single process to open a file for writing, so all calls of a file share a process. Starting one takes a
tenth of a second, so it is kept for a while, with the file closed (duckdb_instance.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary

from noetl_activities.duckdb_location import DatabaseFile
from noetl_activities.duckdb_process import DuckdbProcess, start_process
from noetl_activities.idle_pool import keep_open

__all__ = ["MAX_IDLE", "duckdb_process", "pooled_processes"]

IDLE_SECONDS = 10.0

MAX_IDLE = 4
"""Maximum number of idle processes of a worker; each uses about 60 MB."""


class _PooledProcess:
    """The process of one place, and how many calls use it."""

    def __init__(self, place: DatabaseFile) -> None:
        self.users = 0
        self.idle_since = 0.0
        self._starting = asyncio.create_task(start_process(place))

    async def process(self) -> DuckdbProcess:
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


class _Processes:
    """The processes of one event loop."""

    def __init__(self) -> None:
        self.keepers = 0
        self.by_place: dict[DatabaseFile, _PooledProcess] = {}

    def take(self, place: DatabaseFile) -> _PooledProcess:
        pooled = self.by_place.get(place)
        if pooled is None or not pooled.is_usable():
            pooled = self.by_place[place] = _PooledProcess(place)
        pooled.users += 1
        return pooled

    async def give_back(self, place: DatabaseFile, pooled: _PooledProcess) -> None:
        pooled.users -= 1
        if pooled.users:
            return
        pooled.idle_since = _now()
        if not (self.keepers and pooled.is_usable() and self.by_place.get(place) is pooled):
            await self._close(place, pooled)
        elif len(idle := self._idle()) > MAX_IDLE:
            await self._close(*idle[0])

    async def close_older(self, seconds: float) -> None:
        """End processes that have been idle for at least ``seconds``."""
        for place, pooled in self._idle():
            if _now() - pooled.idle_since >= seconds:
                await self._close(place, pooled)

    def _idle(self) -> list[tuple[DatabaseFile, _PooledProcess]]:
        idle = [(place, pooled) for place, pooled in self.by_place.items() if not pooled.users]
        return sorted(idle, key=lambda item: item[1].idle_since)

    async def _close(self, place: DatabaseFile, pooled: _PooledProcess) -> None:
        """Remove a process from the pool and end it, even if the caller is cancelled."""
        if self.by_place.get(place) is pooled:
            del self.by_place[place]
        await asyncio.shield(asyncio.create_task(pooled.close()))


_BY_LOOP: WeakKeyDictionary[asyncio.AbstractEventLoop, _Processes] = WeakKeyDictionary()


@asynccontextmanager
async def duckdb_process(place: DatabaseFile) -> AsyncGenerator[DuckdbProcess]:
    """The process of this database, for one call. Raises ConfigError."""
    processes = _BY_LOOP.setdefault(asyncio.get_running_loop(), _Processes())
    pooled = processes.take(place)
    try:
        yield await pooled.process()
    finally:
        await processes.give_back(place, pooled)


@asynccontextmanager
async def pooled_processes() -> AsyncGenerator[None]:
    """Keep processes while the block runs; without it they end with the last call that uses them."""
    processes = _BY_LOOP.setdefault(asyncio.get_running_loop(), _Processes())
    async with keep_open(processes, IDLE_SECONDS):
        yield


def _now() -> float:
    return asyncio.get_running_loop().time()
