"""Keeps resources open between calls while a worker runs, and closes them after they were idle for a while."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Protocol

__all__ = ["IdlePool", "keep_open"]


class IdlePool(Protocol):
    """A pool that keeps idle resources while ``keep_open`` blocks run; ``keep_open_count`` is the number of blocks."""

    keep_open_count: int

    async def close_older(self, seconds: float) -> None:
        """Close resources that have been idle for at least ``seconds``."""
        ...


@asynccontextmanager
async def keep_open(pool: IdlePool, seconds: float) -> AsyncGenerator[None]:
    """Keep idle resources for ``seconds`` while the block runs. All are closed at the end of the last block."""
    pool.keep_open_count += 1
    sweep = asyncio.create_task(_sweep(pool, seconds))
    try:
        yield
    finally:
        sweep.cancel()
        pool.keep_open_count -= 1
        if not pool.keep_open_count:
            await pool.close_older(0)


async def _sweep(pool: IdlePool, seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds / 2)
        await pool.close_older(seconds)
