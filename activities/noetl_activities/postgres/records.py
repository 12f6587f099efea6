"""Limits nested records in results of Postgres.

The driver decodes nested records by recursion in C without a limit: a server that sends 40,000 nested records (480 KB)
crashes the worker with a segmentation fault. Postgres itself limits the nesting to a few thousand. The nesting is not
known before decoding, but it is at most the number of occurrences of the record type.
"""

from __future__ import annotations

import struct

__all__ = ["MAX_RECORDS", "RecordWatch"]

MAX_RECORDS = 10_000
"""Maximum number of records in one message, that is, in a row. If all are nested, they take 2 of the stack's 8 MB."""

_RECORD_TYPE = struct.pack("!I", 2249)
"""The type id that precedes each nested record."""

_LARGE_MESSAGE = MAX_RECORDS * 12
"""The minimum size of a message with too many records."""

_HEADER = struct.Struct("!xI")


class RecordWatch:
    """Splits the data of a server into messages, and counts records in the large ones."""

    def __init__(self, unread: bytes = b"") -> None:
        self._unread = unread
        self._remaining_bytes = 0
        self._record_count = 0
        self._overlap = b""  # the end of the searched data, where a type id may begin

    def is_exceeded(self, data: bytes) -> bool:
        """Read the next bytes, and return whether a message has too many records."""
        data, self._unread = self._unread + data, b""
        position, size = 0, len(data)
        while position < size:
            if self._remaining_bytes:
                end = min(size, position + self._remaining_bytes)
                piece = self._overlap + data[position:end]
                self._record_count += piece.count(_RECORD_TYPE)
                self._overlap = piece[1 - len(_RECORD_TYPE) :]
                if self._record_count > MAX_RECORDS:
                    return True
                self._remaining_bytes -= end - position
                position = end
            elif size - position < _HEADER.size:
                self._unread = data[position:]
                return False
            else:
                length = max(_HEADER.unpack_from(data, position)[0], _HEADER.size - 1)
                position += 1
                if length <= _LARGE_MESSAGE and position + length <= size:
                    position += length
                else:
                    self._remaining_bytes, self._record_count, self._overlap = length, 0, b""
        return False
