"""Transactions that end in time, whatever the server does.

asyncpg rolls back by a query of its own, which first waits until the statement before it has ended. A server that
waits for data (``COPY t FROM STDIN``), or that answers nothing any more, never ends it: a call would outlive its
timeout, and its cancel.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from noetl_activities.postgres_kept import CLOSE_SECONDS, Connection

__all__ = ["transaction"]


@asynccontextmanager
async def transaction(connection: Connection) -> AsyncGenerator[None]:
    """As ``connection.transaction()``. One that cannot be rolled back in time ends with its connection."""
    begun = connection.transaction()
    await begun.start()
    try:
        yield
    except BaseException:
        with suppress(Exception):
            async with asyncio.timeout(CLOSE_SECONDS):
                await begun.rollback()
        raise
    await begun.commit()
