"""An in-memory cache of secrets that a worker has fetched, until they expire."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

__all__ = ["MOST", "FetchedSecret", "FetchedSecrets"]

MOST = 256
"""Maximum number of cached secrets; expired ones are dropped first."""


class FetchedSecret(NamedTuple):
    """A secret, and for how many seconds it may be cached."""

    fields: dict[str, Any]
    seconds: float


class _CachedSecret(NamedTuple):
    fields: dict[str, Any]
    until: float


class FetchedSecrets:
    """A cache of secrets. The key must include everything that the secret depends on. Concurrent calls that need the
    same secret fetch it once.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._cached: dict[str, _CachedSecret] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def get(self, key: str, fetch: Callable[[], Awaitable[FetchedSecret]]) -> dict[str, Any]:
        """Return the cached or fetched secret. Raises the errors of ``fetch``; these are not cached."""
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            cached = self._cached.get(key)
            if cached is not None and cached.until > self._clock():
                return cached.fields
            secret = await fetch()
            if secret.seconds > 0:
                self._cached[key] = _CachedSecret(secret.fields, self._clock() + secret.seconds)
                self._drop_some()
            return secret.fields

    def _drop_some(self) -> None:
        now = self._clock()
        cached = [(key, secret) for key, secret in self._cached.items() if secret.until > now]
        self._cached = dict(sorted(cached, key=lambda pair: pair[1].until)[-MOST:])
        self._locks = {key: lock for key, lock in self._locks.items() if key in self._cached or lock.locked()}
