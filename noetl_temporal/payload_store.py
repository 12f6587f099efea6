"""Large payloads in Postgres instead of Temporal's history (the claim check, dev/decisions/0008).

Temporal refuses payloads over 2 MB and workflow tasks over 4 MB, some of it by hanging. A payload is stored under
the digest of its bytes: storing it again, in a retry or for another call, changes nothing. History has the digest.

What this process has stored a moment ago is not sent again. So an activity can store its result itself, as often as it
takes, and Temporal's own store() afterwards needs no database (run_tool.py).
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Iterable, Sequence
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

__all__ = ["UNREAD", "PatientStore", "PayloadStore"]

UNREAD = "noetl/unread"
"""The encoding of a payload that is nothing but the key of one that could not be read."""

RETRIEVE_SECONDS = 5.0
"""How long an activity may take to read its input before its first heartbeat is due."""

MAX_CONNECTIONS = 4
"""Of one process. Large values are rare, so each use connects anew and nothing has to be closed."""

REMEMBERED = 4096
REMEMBERED_SECONDS = 600.0
"""Digests of what was stored a moment ago; older ones may have been removed since."""

_log = logging.getLogger(__name__)

_STORE = """
INSERT INTO noetl.payload (key, data) SELECT * FROM unnest($1::text[], $2::bytea[]) ON CONFLICT (key) DO NOTHING
"""


class PayloadStore(StorageDriver):
    """Keeps payloads in noetl.payload."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._is_migrated = False
        self._free = asyncio.Semaphore(MAX_CONNECTIONS)
        self._stored = _Recent()

    def name(self) -> str:
        """As it stands in history."""
        return "noetl.payload"

    async def store(self, context: StorageDriverStoreContext, payloads: Sequence[Payload]) -> list[StorageDriverClaim]:
        """Keep the payloads. Raises asyncpg's errors, OSError; then Temporal tries again."""
        del context
        texts = [payload.SerializeToString(deterministic=True) for payload in payloads]
        keys = [hashlib.sha256(text).hexdigest() for text in texts]
        rows = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._stored}
        if rows:
            async with self._connected() as connection:
                await connection.execute(_STORE, list(rows), list(rows.values()))
            self._stored.add(rows)
        return [StorageDriverClaim({"key": key}) for key in keys]

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        """The payloads of earlier claims. Raises LookupError for one that is not there, asyncpg's errors, OSError."""
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


class PatientStore(StorageDriver):
    """A payload store for workers: what cannot be read at once comes as a payload that names it, for an activity to
    read while it heartbeats. Failing would be an attempt that ends before it begins, and looks like a lost one.
    A workflow task fails where it meets such a payload (codec.py), and is tried again.
    """

    def __init__(self, store: PayloadStore) -> None:
        self._store = store

    def name(self) -> str:
        """That of the store."""
        return self._store.name()

    async def store(self, context: StorageDriverStoreContext, payloads: Sequence[Payload]) -> list[StorageDriverClaim]:
        """See PayloadStore."""
        return await self._store.store(context, payloads)

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        """See PayloadStore. Never raises."""
        try:
            async with asyncio.timeout(RETRIEVE_SECONDS):
                return await self._store.retrieve(context, claims)
        except Exception as error:
            _log.warning("a large value cannot be read: %s: %s", type(error).__name__, error)
            return [_named(claim.claim_data["key"]) for claim in claims]


def _named(key: str) -> Payload:
    return Payload(metadata={"encoding": UNREAD.encode()}, data=key.encode())


class _Recent:
    """The keys added last, for a while."""

    def __init__(self) -> None:
        self._added: OrderedDict[str, float] = OrderedDict()

    def __contains__(self, key: str) -> bool:
        added = self._added.get(key)
        return added is not None and time.monotonic() - added < REMEMBERED_SECONDS

    def add(self, keys: Iterable[str]) -> None:
        """Remember them, and forget the oldest where they are too many."""
        for key in keys:
            self._added[key] = time.monotonic()
            self._added.move_to_end(key)
        while len(self._added) > REMEMBERED:
            self._added.popitem(last=False)
