"""Transactions whose rollback has a timeout.

asyncpg rolls back with a query, which first waits for the previous statement to end. If the server waits for data
(``COPY t FROM STDIN``) or does not respond, it never ends, and the call would not end at its timeout or cancellation.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from noetl_activities.postgres.pool import CLOSE_SECONDS, Connection

__all__ = ["transaction"]


@asynccontextmanager
async def transaction(connection: Connection) -> AsyncGenerator[None]:
    """Like ``connection.transaction()``, but closes the connection if the rollback takes too long."""
    inner = connection.transaction()
    await inner.start()
    try:
        yield
    except BaseException:
        with suppress(Exception):
            async with asyncio.timeout(CLOSE_SECONDS):
                await inner.rollback()
        raise
    await inner.commit()
