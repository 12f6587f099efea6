"""Large payloads in Postgres instead of Temporal's history (temporal.md 2, the claim check).

Temporal refuses payloads over 2 MB and workflow tasks over 4 MB, some of it by hanging. A payload is stored under
the digest of its bytes: storing it again, in a retry or for another call, changes nothing. History has the digest.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import asyncpg
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
)

from noetl_temporal.mirror.migrations import migrate

__all__ = ["PayloadStore"]

MAX_CONNECTIONS = 4
"""Of one process. Large values are rare, so each use connects anew and nothing has to be closed."""

_STORE = """
INSERT INTO noetl.payload (key, data) SELECT * FROM unnest($1::text[], $2::bytea[]) ON CONFLICT (key) DO NOTHING
"""


class PayloadStore(StorageDriver):
    """Keeps payloads in noetl.payload."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._is_migrated = False
        self._free = asyncio.Semaphore(MAX_CONNECTIONS)

    def name(self) -> str:
        """As it stands in history."""
        return "noetl.payload"

    async def store(self, context: StorageDriverStoreContext, payloads: Sequence[Payload]) -> list[StorageDriverClaim]:
        """Keep the payloads. Raises asyncpg's errors; then Temporal tries again."""
        del context
        texts = [payload.SerializeToString(deterministic=True) for payload in payloads]
        rows = {hashlib.sha256(text).hexdigest(): text for text in texts}
        async with self._connected() as connection:
            await connection.execute(_STORE, list(rows), list(rows.values()))
        return [StorageDriverClaim({"key": hashlib.sha256(text).hexdigest()}) for text in texts]

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        """The payloads of earlier claims. Raises LookupError for one that is not there, asyncpg's errors."""
        del context
        keys = [claim.claim_data["key"] for claim in claims]
        async with self._connected() as connection:
            records = await connection.fetch("SELECT key, data FROM noetl.payload WHERE key = ANY($1)", keys)
        found = {record["key"]: record["data"] for record in records}
        missing = [key for key in keys if key not in found]
        if missing:
            raise LookupError(
                f"noetl.payload has no {', '.join(missing)}: its rows were removed, "
                "or NOETL_POSTGRES names another database here than where the value was stored"
            )
        return [Payload.FromString(found[key]) for key in keys]

    @asynccontextmanager
    async def _connected(self) -> AsyncGenerator[asyncpg.Connection]:
        async with self._free:
            await self._ensure_table()
            connection = await asyncpg.connect(self._dsn)
            try:
                yield connection
            finally:
                await connection.close()

    async def _ensure_table(self) -> None:
        """The first to need the table may come before the mirror has made it."""
        if not self._is_migrated:
            await migrate(self._dsn)
            self._is_migrated = True
