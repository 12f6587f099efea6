"""A process-wide cache of facts about templates, keyed by their source.

There is no LRU order: the templates of playbooks fit, and beyond ``_MOST_CHARS`` of templates the cache is cleared.
"""

from __future__ import annotations

from typing import TypeVar

__all__ = ["TemplateCache"]

Known = TypeVar("Known")

_MOST_CHARS = 40_000_000
_CHARS_BESIDE = 500
"""Approximate size of an entry in addition to its source, in characters."""


class TemplateCache(dict[str, Known]):
    """Template source -> a fact about it."""

    def __init__(self) -> None:
        super().__init__()
        self._chars = 0

    def keep(self, source: str, known: Known) -> Known:
        """Store ``known`` and return it."""
        if self._chars > _MOST_CHARS:
            self.clear()
            self._chars = 0
        self._chars += len(source) + _CHARS_BESIDE
        self[source] = known
        return known
