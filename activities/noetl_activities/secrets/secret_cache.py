"""An in-memory cache of secrets that a worker has fetched, until they expire."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

__all__ = ["MAX_CACHED", "FetchedSecret", "SecretCache"]

MAX_CACHED = 256
"""Maximum number of cached secrets; expired ones are dropped first."""


class FetchedSecret(NamedTuple):
    """A secret, and the number of seconds for which it may be cached."""

    fields: dict[str, Any]
    seconds: float


class _CachedSecret(NamedTuple):
    fields: dict[str, Any]
    expires_at: float


class SecretCache:
    """A cache of secrets. Concurrent calls that need the same secret fetch it once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._entries: dict[str, _CachedSecret] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def get(self, key: str, fetch: Callable[[], Awaitable[FetchedSecret]]) -> dict[str, Any]:
        """Return the cached or fetched secret. ``key`` must include everything that the secret depends on. Raises the
        errors of ``fetch``, which are not cached.
        """
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            cached_secret = self._entries.get(key)
            if cached_secret is not None and cached_secret.expires_at > self._clock():
                return cached_secret.fields
            secret = await fetch()
            if secret.seconds > 0:
                self._entries[key] = _CachedSecret(secret.fields, self._clock() + secret.seconds)
                self._drop_expired()
            return secret.fields

    def _drop_expired(self) -> None:
        """Drop expired secrets, and those that expire first if there are too many."""
        now = self._clock()
        valid_entries = [(key, secret) for key, secret in self._entries.items() if secret.expires_at > now]
        self._entries = dict(sorted(valid_entries, key=lambda pair: pair[1].expires_at)[-MAX_CACHED:])
        self._locks = {key: lock for key, lock in self._locks.items() if key in self._entries or lock.locked()}
