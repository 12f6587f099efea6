"""Ids of the rows of noetl.event: unique in an execution by construction, and increasing along each machine.

An id is (milliseconds since 2024, slot, ordinal) in 40, 10 and 13 bits. Every workflow of an execution that runs at
the same time has a *slot* of its own (0 is the playbook's), so ids of different workflows never meet. Within a slot
an ``IdClock`` assigns ids: the time is that of the fact, or that of the last id if it is later, and one
millisecond more if all ordinals of a millisecond are used.

The lower half of the ordinals is for the events that a machine writes, the upper half for the rows that the mirror
derives from history (attempts, sinks). A machine knows how many rows are derived from each fact, keeps the same
count (``EventIds.derived``), and writes its next event above them. A slot is given to another workflow only above the
last millisecond that the one before it used. So two rows cannot have the same id. In order of id a row follows its
parent, and the events of one machine follow each other as they happened; rows of calls that ran at the same time may
stand later than their time, because they are derived when the call ends.
"""

from __future__ import annotations

import msgspec

__all__ = ["DERIVED", "EPOCH_MS", "OBSERVED_SLOT", "SLOTS", "IdClock", "millisecond_of"]

EPOCH_MS = 1704067200000
"""2024-01-01 UTC, the epoch of every NoETL id."""

SLOTS = 1023
"""Workflows of one execution that may run at the same time, the playbook's own included."""

OBSERVED_SLOT = SLOTS
"""The slot of rows that no workflow's history has: what the mirror saw at the server (mirror/call_pauses.py)."""

DERIVED = 4096
"""Ordinals from here on are those of derived rows; as many are below."""

_ORDINAL_BITS = 13
_LOW_BITS = _ORDINAL_BITS + 10


class IdClock(msgspec.Struct):
    """The last id assigned: ``ms`` since the Unix epoch, and the number of ids in that millisecond."""

    ms: int = 0
    used: int = 0

    def next(self, at: int, slot: int, first: int = 0) -> int:
        """Return one more id at a time, in milliseconds since the Unix epoch. Its ordinal is ``first`` (DERIVED for a
        derived row) or above.
        """
        if at > self.ms:
            self.ms, self.used = at, 0
        elif self.used >= DERIVED:
            self.ms, self.used = self.ms + 1, 0
        ordinal = first + self.used
        self.used += 1
        return (self.ms - EPOCH_MS) << _LOW_BITS | slot << _ORDINAL_BITS | ordinal

    def skip(self, at: int, count: int) -> None:
        """Move on as ``count`` calls of ``next`` at this time would."""
        if at > self.ms:
            self.ms, self.used = at, 0
        total = self.used + count
        if total > DERIVED:
            self.ms += (total - 1) // DERIVED
            total = (total - 1) % DERIVED + 1
        self.used = total


def millisecond_of(id_: int) -> int:
    """Return the ``ms`` of an id, since the Unix epoch."""
    return (id_ >> _LOW_BITS) + EPOCH_MS
