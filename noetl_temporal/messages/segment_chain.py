"""Reads the chain of a frame's segments, each of which refers to the previous one, with limits.

Anyone with access to the payload store may have written a chain with a cycle, or one that is too large although each of
its segments is within the limit of a segment.
"""

from __future__ import annotations

from noetl_temporal.limits import UNPACKED_BYTES
from noetl_temporal.messages.inflate import InflateError, decompress

__all__ = ["MAX_SEGMENTS_OF_FULL_SIZE", "SegmentChain"]

MAX_SEGMENTS_OF_FULL_SIZE = 4
"""The maximum size of a chain, in segments of the maximum size. A frame has at most 10,000 items, which may then have
100 KB each."""


class SegmentChain:
    """The segments of one frame, read from the last to the first."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self._read_keys: set[str] = set()
        self._remaining_bytes = MAX_SEGMENTS_OF_FULL_SIZE * UNPACKED_BYTES

    def follow(self, key: str) -> None:
        """Add the key of the next segment to be read. Raises InflateError if it was read before."""
        if key in self._read_keys:
            raise InflateError(f"segment {key} of the frame refers to itself or a later segment as its predecessor")
        self._read_keys.add(key)
        self.keys.append(key)

    def decompress(self, data: bytes) -> bytes:
        """Return the data of a segment, decompressed. Raises InflateError, also if the whole chain is too large."""
        content = decompress(data)
        self._remaining_bytes -= len(content)
        if self._remaining_bytes < 0:
            limit = MAX_SEGMENTS_OF_FULL_SIZE * UNPACKED_BYTES
            raise InflateError(f"the segments of the frame decompress to over {limit:,} bytes in all")
        return content
