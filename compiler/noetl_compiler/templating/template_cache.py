"""What is known of templates, by their source, for the whole process.

There is no order of use: what playbooks need fits, and when a process has seen more than ``_MOST_CHARS`` of templates
the store starts anew, which costs finding out each once more.
"""

from __future__ import annotations

from typing import TypeVar

__all__ = ["Remembered"]

Known = TypeVar("Known")

_MOST_CHARS = 40_000_000
_CHARS_BESIDE = 500
"""What is remembered of a template costs about so much more than its source."""


class Remembered(dict[str, Known]):
    """Template source -> what is known of it."""

    def __init__(self) -> None:
        super().__init__()
        self._chars = 0

    def keep(self, source: str, known: Known) -> Known:
        """Remember ``known``, and give it back."""
        if self._chars > _MOST_CHARS:
            self.clear()
            self._chars = 0
        self._chars += len(source) + _CHARS_BESIDE
        self[source] = known
        return known
