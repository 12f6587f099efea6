"""Resources that are kept open between calls while a worker serves, and closed after being idle for a while."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Protocol

__all__ = ["IdlePool", "keep_open"]


class IdlePool(Protocol):
    """A pool of idle resources. ``keepers`` counts its users; nothing is kept without one."""

    keepers: int

    async def close_older(self, seconds: float) -> None:
        """Close resources that have been idle for at least ``seconds``."""
        ...


@asynccontextmanager
async def keep_open(kept: IdlePool, seconds: float) -> AsyncGenerator[None]:
    """Keep resources while the block runs, each until it was idle for ``seconds``; the last keeper closes all."""
    kept.keepers += 1
    sweeping = asyncio.create_task(_sweep(kept, seconds))
    try:
        yield
    finally:
        sweeping.cancel()
        kept.keepers -= 1
        if not kept.keepers:
            await kept.close_older(0)


async def _sweep(kept: IdlePool, seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds / 2)
        await kept.close_older(seconds)
