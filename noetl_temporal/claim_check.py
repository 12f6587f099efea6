"""Large values lie in Postgres, history has a claim for each: the claim check (architecture.md 5).

Temporal carries 2 MB a value and 4 MB a message; over that a run would hang or be terminated rather than fail. With
this driver, which every client and worker of one event log shares, such values go to ``noetl.payload`` under the hash
of their bytes: storing twice is storing once, and a claim can never mean another value.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence

import asyncpg
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    ExternalStorage,
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
)

from noetl_temporal.mirror.migrations import migrate

__all__ = ["THRESHOLD_BYTES", "claim_check"]

THRESHOLD_BYTES = 64 * 1024

_STORE = "INSERT INTO noetl.payload (key, data) VALUES ($1, $2) ON CONFLICT (key) DO NOTHING"
_FETCH = "SELECT data FROM noetl.payload WHERE key = $1"


class MissingPayloadError(RuntimeError):
    """A large value is not in noetl.payload: is this the Postgres that the run was started with?"""


def claim_check(dsn: str) -> ExternalStorage:
    """Storage of values over THRESHOLD_BYTES in the Postgres of ``dsn``."""
    return ExternalStorage(drivers=[_PostgresDriver(dsn)], payload_size_threshold=THRESHOLD_BYTES)


class _PostgresDriver(StorageDriver):
    """A connection for each use: large values are rare, and a worker's event loop is not the client's."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._is_migrated = False
        self._migrating = asyncio.Lock()

    def name(self) -> str:
        """What stands in history beside every claim."""
        return "noetl.postgres"

    async def store(self, context: StorageDriverStoreContext, payloads: Sequence[Payload]) -> list[StorageDriverClaim]:
        """Store each under its hash."""
        del context
        rows = [_row(payload) for payload in payloads]
        await self._ensure_table()
        connection = await asyncpg.connect(self._dsn)
        try:
            await connection.executemany(_STORE, rows)
        finally:
            await connection.close()
        return [StorageDriverClaim(claim_data={"key": key}) for key, _ in rows]

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        """The payloads of the claims. Raises MissingPayloadError."""
        del context
        connection = await asyncpg.connect(self._dsn)
        try:
            return [await _fetched(connection, claim.claim_data["key"]) for claim in claims]
        finally:
            await connection.close()

    async def _ensure_table(self) -> None:
        """The first to need the table may come before the mirror has made it."""
        async with self._migrating:
            if not self._is_migrated:
                await migrate(self._dsn)
                self._is_migrated = True


def _row(payload: Payload) -> tuple[str, bytes]:
    data = payload.SerializeToString(deterministic=True)
    return hashlib.sha256(data).hexdigest(), data


async def _fetched(connection: asyncpg.Connection, key: str) -> Payload:
    data = await connection.fetchval(_FETCH, key)
    if data is None:
        raise MissingPayloadError(f"{MissingPayloadError.__doc__} (key {key})")
    return Payload.FromString(data)
