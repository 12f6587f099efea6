"""Records in records, without an end.

The driver decodes a record within a record by a call within a call of C, and looks at no limit: a server that sends
40,000 of them in each other, 480 KB, ends the worker with a segmentation fault. Postgres itself stops at some
thousand. How deep they are nested is not known before they are decoded, but they are no more than their type is named.
"""

from __future__ import annotations

import struct

__all__ = ["MOST_RECORDS", "RecordWatch"]

MOST_RECORDS = 10_000
"""In one message, as a row is one. That many in each other take 2 MB of the stack, which has 8."""

_RECORD = struct.pack("!I", 2249)
"""The type, as it stands before each record in a record."""

_LARGE = MOST_RECORDS * 12
"""What so many take at least."""

_HEADER = struct.Struct("!xI")


class RecordWatch:
    """Follows the messages of a server, from the beginning of one on, and counts records in the large ones."""

    def __init__(self, unread: bytes = b"") -> None:
        self._unread = unread
        self._left = 0
        self._found = 0
        self._seen = b""  # the end of what was searched, where a name may begin

    def is_exceeded(self, data: bytes) -> bool:
        """Whether a message has more records with these bytes, the next ones, than any may have."""
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
