"""What a sandboxed process writes to a pipe, of which the worker keeps a bounded part."""

from __future__ import annotations

__all__ = ["END_BYTES", "Captured"]

END_BYTES = 64 * 1024
"""Bytes that are kept of the end: a failed command says there why it failed."""


class Captured:
    """The first ``most`` bytes, the last END_BYTES bytes, and ``size``, the number of all bytes."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.size = 0
        self.beginning = bytearray()
        self.end = bytearray()

    def add(self, chunk: bytes) -> None:
        """Append what was read."""
        self.size += len(chunk)
        self.beginning += chunk[: max(0, self.most - len(self.beginning))]
        self.end = (self.end + chunk)[-END_BYTES:]

    @property
    def is_whole(self) -> bool:
        """Whether the beginning is all there was."""
        return self.size <= self.most

    @property
    def text(self) -> str:
        """The beginning; a character that the limit divides is replaced."""
        return self.beginning.decode("utf-8", "replace")
