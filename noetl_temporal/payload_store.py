"""Large payloads in Postgres instead of Temporal's history (the claim check, dev/decisions/0008).

Temporal refuses payloads over 2 MB and workflow tasks over 4 MB, some of it by hanging. A payload is stored under
the digest of its bytes: storing it again, in a retry or for another call, changes nothing. History has the digest.

A payload that this process has just stored is not sent again. So an activity can store its result itself, with as many
retries as necessary, and Temporal's own store() afterwards needs no database (run_tool.py). Stored and read values are
cached (``_ValueCache``): activities, loads and replays of one process read a value once. A key is the digest of its
value, so the cache is never out of date.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

import asyncpg
from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
)

from noetl_temporal.connection_pools import Connection, run_on_pool
from noetl_temporal.mirror.migrations import migrate

__all__ = ["SEGMENT", "STORE_NAME", "UNREAD", "PatientStore", "PayloadStore"]

STORE_NAME = "noetl.payload"
"""The name of this store in history."""

with workflow.unsafe.sandbox_unrestricted():  # workflows never see it: such a payload fails their task
    UNREAD = f"noetl/unread-{secrets.token_hex(8)}"
"""The encoding of a payload that is nothing but the key of one that could not be read. It never leaves the process, and
nobody else can make one."""

RETRIEVE_SECONDS = 5.0
"""How long an activity may take to read its input before its first heartbeat is due."""

REMEMBERED = 4096
REMEMBERED_SECONDS = 600.0
"""Digests of what was stored a moment ago; older ones may have been removed since."""

CACHE_BYTES = 64_000_000
"""Total size of the values that a process caches."""

SEGMENT = b"binary/zlib"
"""The encoding of a segment of a frame. It is read once, by the mirror or by another attempt, so it is not cached: the
segments of a large loop would fill the cache."""

T = TypeVar("T")
_log = logging.getLogger(__name__)

# A payload that is there is touched unless it was stored a moment ago: `noetl prune` removes nothing stored in the last
# day. Where it is removing the payload now, this waits and stores it anew. In order, so that rivals do not deadlock.
_STORE = """
INSERT INTO noetl.payload (key, data)
SELECT given.key, given.data FROM unnest($1::text[], $2::bytea[]) AS given (key, data)
WHERE NOT EXISTS (SELECT FROM noetl.payload p WHERE p.key = given.key AND p.used_at > now() - interval '1 hour')
ORDER BY given.key
ON CONFLICT (key) DO UPDATE SET used_at = now()
"""
_READ = "SELECT key, data FROM noetl.payload WHERE key = ANY($1)"


class PayloadStore(StorageDriver):
    """Keeps payloads in noetl.payload."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._stored = _Recent()

    @property
    def dsn(self) -> str:
        """The Postgres in which it keeps them."""
        return self._dsn

    def name(self) -> str:
        """The name of this store in history."""
        return STORE_NAME

    async def store(self, context: StorageDriverStoreContext, payloads: Sequence[Payload]) -> list[StorageDriverClaim]:
        """Keep the payloads. Raises asyncpg's errors, OSError; then Temporal tries again."""
        del context
        texts = [payload.SerializeToString(deterministic=True) for payload in payloads]
        keys = [hashlib.sha256(text).hexdigest() for text in texts]
        rows = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._stored}
        if rows:
            await self._run(lambda connection: connection.execute(_STORE, list(rows), list(rows.values())))
            self._stored.add(rows)
        self._cache(keys, texts, payloads)
        return [StorageDriverClaim({"key": key}) for key in keys]

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        """The payloads of earlier claims. Raises LookupError for one that is not there, asyncpg's errors, OSError."""
        del context
        keys = [claim.claim_data["key"] for claim in claims]
        found = {key: text for key in keys if (text := _CACHE.get(self._dsn, key)) is not None}
        unknown = [key for key in keys if key not in found]
        if unknown:
            found |= await self._read(unknown)
        missing = [key for key in keys if key not in found]
        if missing:
            raise LookupError(
                f"noetl.payload has no {', '.join(missing)}: its rows were removed or changed, "
                "or NOETL_POSTGRES names another database here than where the value was stored"
            )
        texts = [found[key] for key in keys]
        payloads = [Payload.FromString(text) for text in texts]
        self._cache(keys, texts, payloads)
        return payloads

    def _cache(self, keys: Sequence[str], texts: Sequence[bytes], payloads: Sequence[Payload]) -> None:
        found = zip(keys, texts, payloads, strict=True)
        _CACHE.add(self._dsn, ((key, text) for key, text, one in found if one.metadata.get("encoding") != SEGMENT))

    async def _read(self, keys: Sequence[str]) -> dict[str, bytes]:
        records = await self._run(lambda connection: connection.fetch(_READ, keys))
        return {key: data for key, data in records if hashlib.sha256(data).hexdigest() == key}

    async def _run(self, statement: Callable[[Connection], Awaitable[T]]) -> T:
        """Run one statement. The first to need the table may come before the mirror has made it."""
        try:
            return await run_on_pool(self._dsn, statement)
        except (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError, asyncpg.InvalidSchemaNameError):
            await migrate(self._dsn)
            return await run_on_pool(self._dsn, statement)


class PatientStore(StorageDriver):
    """A payload store for workers. If a value cannot be read immediately, it returns a payload with its key, and the
    activity reads the value while it heartbeats. A failure would end the attempt before it starts, which looks like a
    lost attempt. A workflow task that reads such a payload fails (codec.py), and is retried.
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


class _ValueCache:
    """An LRU cache of stored values, by database and key. A value over a quarter of ``CACHE_BYTES`` is not cached, as
    it would evict most others.
    """

    def __init__(self) -> None:
        self._data: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._bytes = 0

    def get(self, dsn: str, key: str) -> bytes | None:
        """None for a value that is not cached."""
        if (dsn, key) in self._data:
            self._data.move_to_end((dsn, key))
        return self._data.get((dsn, key))

    def add(self, dsn: str, found: Iterable[tuple[str, bytes]]) -> None:
        """Cache the values as the ones used last, and evict those used least recently."""
        for key, data in found:
            if len(data) > CACHE_BYTES // 4:
                continue
            if (dsn, key) not in self._data:
                self._data[dsn, key] = data
                self._bytes += len(data)
            self._data.move_to_end((dsn, key))
        while self._bytes > CACHE_BYTES:
            self._bytes -= len(self._data.popitem(last=False)[1])


_CACHE = _ValueCache()
