"""A process-wide cache of values derived from templates, keyed by their source.

It evicts nothing: the templates of most processes fit, and the cache is cleared when their text exceeds ``_MAX_CHARS``.
"""

from __future__ import annotations

from typing import TypeVar

__all__ = ["TemplateCache"]

Cached = TypeVar("Cached")

_MAX_CHARS = 40_000_000
_OVERHEAD_CHARS = 500
"""Approximate size of an entry in addition to its source, in characters."""


class TemplateCache(dict[str, Cached]):
    """Template source -> the value derived from it."""

    def __init__(self) -> None:
        super().__init__()
        self._chars = 0

    def store(self, source: str, entry: Cached) -> Cached:
        """Store ``entry`` and return it."""
        if self._chars > _MAX_CHARS:
            self.clear()
            self._chars = 0
        self._chars += len(source) + _OVERHEAD_CHARS
        self[source] = entry
        return entry
