"""What calls leave open for the next one, for as long as a worker serves: closed after it was idle for a while."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Protocol

__all__ = ["Kept", "keeping"]


class Kept(Protocol):
    """``keepers`` says how many want things to be kept; nothing is without one."""

    keepers: int

    async def close_older(self, seconds: float) -> None:
        """Close what has been idle for so long."""
        ...


@asynccontextmanager
async def keeping(kept: Kept, seconds: float) -> AsyncGenerator[None]:
    """Keep things while the block runs, each until it was idle for ``seconds``; the last keeper closes all."""
    kept.keepers += 1
    sweeping = asyncio.create_task(_sweep(kept, seconds))
    try:
        yield
    finally:
        sweeping.cancel()
        kept.keepers -= 1
        if not kept.keepers:
            await kept.close_older(0)


async def _sweep(kept: Kept, seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds / 2)
        await kept.close_older(seconds)
