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
from noetl_activities.duckdb_process import DuckdbProcess, started
from noetl_activities.idle_pool import keep_open

__all__ = ["MAX_IDLE", "duckdb_process", "pooled_processes"]

IDLE_SECONDS = 10.0

MAX_IDLE = 4
"""Maximum number of idle processes of a worker; each uses about 60 MB."""


class _Kept:
    """The process of one place, and how many calls use it."""

    def __init__(self, place: DatabaseFile) -> None:
        self.users = 0
        self.idle_since = 0.0
        self._starting = asyncio.create_task(started(place))

    async def process(self) -> DuckdbProcess:
        return await asyncio.shield(self._starting)

    def is_usable(self) -> bool:
        if not self._starting.done():
            return True
        return not self._starting.cancelled() and not self._starting.exception() and not self._starting.result().is_over

    async def close(self) -> None:
        done, _ = await asyncio.wait([self._starting])
        for process in done:
            if process.exception() is None:
                await process.result().close()


class _Processes:
    """The processes of one event loop."""

    def __init__(self) -> None:
        self.keepers = 0
        self.by_place: dict[DatabaseFile, _Kept] = {}

    def take(self, place: DatabaseFile) -> _Kept:
        kept = self.by_place.get(place)
        if kept is None or not kept.is_usable():
            kept = self.by_place[place] = _Kept(place)
        kept.users += 1
        return kept

    async def give_back(self, place: DatabaseFile, kept: _Kept) -> None:
        kept.users -= 1
        if kept.users:
            return
        kept.idle_since = _now()
        if not (self.keepers and kept.is_usable() and self.by_place.get(place) is kept):
            await self._close(place, kept)
        elif len(idle := self._idle()) > MAX_IDLE:
            await self._close(*idle[0])

    async def close_older(self, seconds: float) -> None:
        """End processes that have been idle for at least ``seconds``."""
        for place, kept in self._idle():
            if _now() - kept.idle_since >= seconds:
                await self._close(place, kept)

    def _idle(self) -> list[tuple[DatabaseFile, _Kept]]:
        idle = [(place, kept) for place, kept in self.by_place.items() if not kept.users]
        return sorted(idle, key=lambda item: item[1].idle_since)

    async def _close(self, place: DatabaseFile, kept: _Kept) -> None:
        """Remove a process from the pool and end it, even if the caller is cancelled."""
        if self.by_place.get(place) is kept:
            del self.by_place[place]
        await asyncio.shield(asyncio.create_task(kept.close()))


_BY_LOOP: WeakKeyDictionary[asyncio.AbstractEventLoop, _Processes] = WeakKeyDictionary()


@asynccontextmanager
async def duckdb_process(place: DatabaseFile) -> AsyncGenerator[DuckdbProcess]:
    """The process of this database, for one call. Raises ConfigError."""
    processes = _BY_LOOP.setdefault(asyncio.get_running_loop(), _Processes())
    kept = processes.take(place)
    try:
        yield await kept.process()
    finally:
        await processes.give_back(place, kept)


@asynccontextmanager
async def pooled_processes() -> AsyncGenerator[None]:
    """Keep processes while the block runs; without it they end with the last call that uses them."""
    processes = _BY_LOOP.setdefault(asyncio.get_running_loop(), _Processes())
    async with keep_open(processes, IDLE_SECONDS):
        yield


def _now() -> float:
    return asyncio.get_running_loop().time()
