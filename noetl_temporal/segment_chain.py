"""The chain of a frame's segments, each of which refers to the previous one, with limits for reading it.

Anyone with access to the payload store may have written a chain with a cycle, or many segments that each are within the
limit of one.
"""

from __future__ import annotations

from noetl_temporal.inflate import InflateError, decompress
from noetl_temporal.limits import UNPACKED_BYTES

__all__ = ["MAX_SEGMENTS_OF_FULL_SIZE", "SegmentChain"]

MAX_SEGMENTS_OF_FULL_SIZE = 4
"""A chain has at most the bytes of this many segments. 10,000 items, the most of a frame, may then have 100 KB each."""


class SegmentChain:
    """The segments of one frame, read from the last to the first."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self._read_keys: set[str] = set()
        self._remaining_bytes = MAX_SEGMENTS_OF_FULL_SIZE * UNPACKED_BYTES

    def follow(self, key: str) -> None:
        """Mark a segment as the next to be read. Raises InflateError if it was read before."""
        if key in self._read_keys:
            raise InflateError(f"segment {key} of the frame refers to itself or a later segment as its predecessor")
        self._read_keys.add(key)
        self.keys.append(key)

    def decompress(self, data: bytes) -> bytes:
        """Return a segment's data, decompressed. Raises InflateError, also when all of them have too many bytes."""
        content = decompress(data)
        self._remaining_bytes -= len(content)
        if self._remaining_bytes < 0:
            limit = MAX_SEGMENTS_OF_FULL_SIZE * UNPACKED_BYTES
            raise InflateError(f"the segments of the frame decompress to over {limit:,} bytes in all")
        return content
