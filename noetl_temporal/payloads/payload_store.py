"""Large payloads in Postgres instead of Temporal's history (the claim check, dev/decisions/0008).

Temporal refuses payloads over 2 MB and workflow tasks over 4 MB; sometimes the run hangs. A payload is stored with the
digest of its bytes as its key: storing it again, in a retry or for another call, changes nothing. History has the key.

A payload that this process has just stored is not sent again. So an activity can store its result itself, with as many
retries as necessary, and the SDK's own call of ``store`` afterwards needs no database (run_tool.py). Stored and read
values are cached (``_ValueCache``): activities, loads and replays of one process read a value once. A key is the digest
of its value, so the cache is never out of date.

With encryption keys the rows are encrypted, with their keys as associated data. The key is the digest of the value
before it is encrypted, so a value is stored once, whichever encryption key is used, and signatures cover it
(signing.py).
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeAlias, TypeVar

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
from noetl_temporal.payloads.encryption import ENCRYPTED, DecryptionError, Keyring, is_encrypted, missing_key_error

__all__ = ["DECRYPTION_ERROR", "SEGMENT_ENCODING", "STORE_NAME", "UNREAD_ENCODING", "DeferringStore", "PayloadStore"]

STORE_NAME = "noetl.payload"
"""The name of this store in history."""

with workflow.unsafe.sandbox_unrestricted():  # workflows never see it: such a payload fails their task
    UNREAD_ENCODING = f"noetl/unread-{secrets.token_hex(8)}"
"""The encoding of a payload whose data are the key of one that could not be read. It is random, as such a payload never
leaves the process, and nobody else may create one."""

DECRYPTION_ERROR = "noetl-undecrypted"
"""The key in the metadata of such a payload that has the message if it could not be decrypted."""

RETRIEVE_SECONDS = 5.0
"""How long an activity may take to read its input before its first heartbeat is due."""

RECENT_KEYS = 4096
"""The maximum number of stored payloads that are remembered and not sent again."""

RECENT_SECONDS = 600.0
"""How long a stored payload is not sent again: after that it may have been removed."""

CACHE_BYTES = 64_000_000
"""The maximum total size of the values that a process caches."""

SEGMENT_ENCODING = b"binary/zlib"
"""The encoding of a segment of a frame. Segments are read once, by the mirror or by another attempt, and are not
cached: those of a large loop would fill the cache.
"""

_METADATA_BYTES = 500
"""An upper bound of the size of an encrypted payload's metadata, which are serialized before its data."""

T = TypeVar("T")
_log = logging.getLogger(__name__)

_IS_ENCRYPTED = f"position('{ENCRYPTED.decode()}'::bytea IN substring({{row}}.data FOR {_METADATA_BYTES})) > 0"

# An existing payload is marked as used unless it was stored in the last hour: `noetl prune` keeps payloads for a day.
# While prune removes the payload, this waits and stores it again. Sorted by key, so that concurrent statements do not
# deadlock. An encrypted row is replaced: without the key it could not be read.
_STORE = f"""
INSERT INTO noetl.payload AS old (key, data)
SELECT new.key, new.data FROM unnest($1::text[], $2::bytea[]) AS new (key, data)
WHERE NOT EXISTS (
    SELECT FROM noetl.payload p WHERE p.key = new.key AND p.used_at > now() - interval '1 hour'
    AND NOT {_IS_ENCRYPTED.format(row="p")})
ORDER BY new.key
ON CONFLICT (key) DO UPDATE SET used_at = now(), data = CASE
    WHEN {_IS_ENCRYPTED.format(row="old")} THEN EXCLUDED.data
    ELSE old.data END
"""  # noqa: S608 - of constants

# Replace every row: one may be under an older encryption key, or under none.
_STORE_ENCRYPTED = """
INSERT INTO noetl.payload (key, data)
SELECT new.key, new.data FROM unnest($1::text[], $2::bytea[]) AS new (key, data)
ORDER BY new.key
ON CONFLICT (key) DO UPDATE SET used_at = now(), data = EXCLUDED.data
"""
_RENEW = "UPDATE noetl.payload SET used_at = now() WHERE key = ANY($1) RETURNING key"
_READ = "SELECT key, data FROM noetl.payload WHERE key = ANY($1)"


class PayloadStore(StorageDriver):
    """Stores payloads in noetl.payload."""

    def __init__(self, dsn: str, keyring: Keyring | None = None) -> None:
        self._dsn = dsn
        self._keyring = keyring
        self._cache_scope = (dsn, keyring.ids if keyring else ())
        self._recently_stored = _RecentKeys()

    @property
    def dsn(self) -> str:
        """The DSN of its Postgres."""
        return self._dsn

    def name(self) -> str:
        """Return the name of this store in history."""
        return STORE_NAME

    async def store(self, context: StorageDriverStoreContext, payloads: Sequence[Payload]) -> list[StorageDriverClaim]:
        """Store the payloads. Raises asyncpg's errors, OSError; then Temporal retries."""
        del context
        texts = [payload.SerializeToString(deterministic=True) for payload in payloads]
        keys = [hashlib.sha256(text).hexdigest() for text in texts]
        rows = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._recently_stored}
        if rows:
            statement = _STORE if self._keyring is None else _STORE_ENCRYPTED
            data = [self._row_data(key, text) for key, text in rows.items()]
            await self._run(lambda connection: connection.execute(statement, list(rows), data))
            self._recently_stored.add(rows)
        self._cache(keys, texts, payloads)
        return [StorageDriverClaim({"key": key}) for key in keys]

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        """Return the payloads of earlier claims.

        Raises LookupError if one is missing, DecryptionError, asyncpg's errors, OSError.
        """
        del context
        keys = [claim.claim_data["key"] for claim in claims]
        cached = {key: text for key in keys if (text := _CACHE.get(self._cache_scope, key)) is not None}
        uncached = [key for key in keys if key not in cached]
        values = cached | (await self._read(uncached) if uncached else {})
        missing = [key for key in keys if key not in values]
        if missing:
            raise LookupError(
                f"noetl.payload has no {', '.join(missing)}: its rows were removed or changed, "
                "or NOETL_POSTGRES names another database here than where the value was stored"
            )
        texts = [values[key] for key in keys]
        payloads = [Payload.FromString(text) for text in texts]
        self._cache(keys, texts, payloads)
        return payloads

    async def renew(self, keys: Iterable[str]) -> set[str]:
        """Mark payloads as used, so that a prune keeps them for another day. Returns the keys of missing payloads.
        Raises asyncpg's errors, OSError.
        """
        ordered = sorted(keys)
        records = await self._run(lambda connection: connection.fetch(_RENEW, ordered))
        return {*ordered} - {record["key"] for record in records}

    def _cache(self, keys: Sequence[str], texts: Sequence[bytes], payloads: Sequence[Payload]) -> None:
        values = zip(keys, texts, payloads, strict=True)
        cacheable_values = (
            (key, text) for key, text, payload in values if payload.metadata.get("encoding") != SEGMENT_ENCODING
        )
        _CACHE.add(self._cache_scope, cacheable_values)

    async def _read(self, keys: Sequence[str]) -> dict[str, bytes]:
        records = await self._run(lambda connection: connection.fetch(_READ, keys))
        stored = {key: self._value_in_row(key, data) for key, data in records}
        return {key: data for key, data in stored.items() if hashlib.sha256(data).hexdigest() == key}

    def _row_data(self, key: str, text: bytes) -> bytes:
        """Return the serialized payload as it is written to a row: encrypted if there are keys."""
        if self._keyring is None:
            return text
        return self._keyring.encrypt(Payload.FromString(text), key.encode()).SerializeToString(deterministic=True)

    def _value_in_row(self, key: str, data: bytes) -> bytes:
        """Return the serialized payload in a row, decrypted if necessary. Raises DecryptionError."""
        if ENCRYPTED not in data[:_METADATA_BYTES]:
            return data
        payload = Payload.FromString(data)
        if not is_encrypted(payload):
            return data
        if self._keyring is None:
            raise missing_key_error(payload)
        return self._keyring.decrypt(payload, key.encode()).SerializeToString(deterministic=True)

    async def _run(self, statement: Callable[[Connection], Awaitable[T]]) -> T:
        """Run one statement. The table is created if the mirror has not created it yet."""
        try:
            return await run_on_pool(self._dsn, statement)
        except (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError, asyncpg.InvalidSchemaNameError):
            await migrate(self._dsn)
            return await run_on_pool(self._dsn, statement)


class DeferringStore(StorageDriver):
    """A payload store for workers. If a value cannot be read immediately, it returns a payload with its key, and the
    activity reads the value while it heartbeats. A failure would end the attempt before it starts, which looks like a
    lost attempt. A workflow task that reads such a payload fails (codec.py), and is retried.
    """

    def __init__(self, store: PayloadStore) -> None:
        self._store = store

    def name(self) -> str:
        """Return the name of the store."""
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
            return [_unread_payload(claim.claim_data["key"], error) for claim in claims]


def _unread_payload(key: str, error: Exception) -> Payload:
    metadata = {"encoding": UNREAD_ENCODING.encode()}
    if isinstance(error, DecryptionError):
        metadata[DECRYPTION_ERROR] = str(error).encode()
    return Payload(metadata=metadata, data=key.encode())


class _RecentKeys:
    """The keys that were added in the last RECENT_SECONDS, at most RECENT_KEYS."""

    def __init__(self) -> None:
        self._added_at: OrderedDict[str, float] = OrderedDict()

    def __contains__(self, key: str) -> bool:
        added_at = self._added_at.get(key)
        return added_at is not None and time.monotonic() - added_at < RECENT_SECONDS

    def add(self, keys: Iterable[str]) -> None:
        """Add the keys, and remove the oldest if there are too many."""
        for key in keys:
            self._added_at[key] = time.monotonic()
            self._added_at.move_to_end(key)
        while len(self._added_at) > RECENT_KEYS:
            self._added_at.popitem(last=False)


_CacheScope: TypeAlias = tuple[str, tuple[str, ...]]
"""The DSN of a database, and the ids of the encryption keys: stores that share both share cached values."""


class _ValueCache:
    """An LRU cache of stored values, by scope and key. A value over a quarter of ``CACHE_BYTES`` is not cached, as it
    would evict most others.
    """

    def __init__(self) -> None:
        self._data: OrderedDict[tuple[_CacheScope, str], bytes] = OrderedDict()
        self._bytes = 0

    def get(self, scope: _CacheScope, key: str) -> bytes | None:
        """Return the cached value; None if it is not cached."""
        if (scope, key) in self._data:
            self._data.move_to_end((scope, key))
        return self._data.get((scope, key))

    def add(self, scope: _CacheScope, loaded: Iterable[tuple[str, bytes]]) -> None:
        """Add the values as the most recently used ones, and evict the least recently used ones over the limit."""
        for key, data in loaded:
            if len(data) > CACHE_BYTES // 4:
                continue
            if (scope, key) not in self._data:
                self._data[scope, key] = data
                self._bytes += len(data)
            self._data.move_to_end((scope, key))
        while self._bytes > CACHE_BYTES:
            self._bytes -= len(self._data.popitem(last=False)[1])


_CACHE = _ValueCache()
