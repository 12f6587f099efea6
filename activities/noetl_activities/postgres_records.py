"""Limits nested records in results of Postgres.

The driver decodes nested records by recursion in C without a limit: a server that sends 40,000 nested records, 480 KB,
crashes the worker with a segmentation fault. Postgres itself stops at some thousand. The nesting is not known before
decoding, but it is at most the number of occurrences of the record type.
"""

from __future__ import annotations

import struct

__all__ = ["MOST_RECORDS", "RecordWatch"]

MOST_RECORDS = 10_000
"""Maximum records in one message, that is, in a row. Nested, they take 2 MB of the stack, which has 8."""

_RECORD = struct.pack("!I", 2249)
"""The type id that precedes each nested record."""

_LARGE = MOST_RECORDS * 12
"""The minimum size of a message with too many records."""

_HEADER = struct.Struct("!xI")


class RecordWatch:
    """Splits the data of a server into messages, and counts records in the large ones."""

    def __init__(self, unread: bytes = b"") -> None:
        self._unread = unread
        self._left = 0
        self._found = 0
        self._seen = b""  # the end of what was searched, where a name may begin

    def is_exceeded(self, data: bytes) -> bool:
        """Whether a message has too many records, after these next bytes."""
        data, self._unread = self._unread + data, b""
        place, size = 0, len(data)
        while place < size:
            if self._left:
                end = min(size, place + self._left)
                piece = self._seen + data[place:end]
                self._found += piece.count(_RECORD)
                self._seen = piece[1 - len(_RECORD) :]
                if self._found > MOST_RECORDS:
                    return True
                self._left -= end - place
                place = end
            elif size - place < _HEADER.size:
                self._unread = data[place:]
                return False
            else:
                length = max(_HEADER.unpack_from(data, place)[0], _HEADER.size - 1)
                place += 1
                if length <= _LARGE and place + length <= size:
                    place += length
                else:
                    self._left, self._found, self._seen = length, 0, b""
        return False
