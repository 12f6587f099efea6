"""Ids of the rows of noetl.event: unique in an execution by construction, and increasing along each machine.

An id is (milliseconds since 2024, slot, ordinal) in 40, 10 and 13 bits. The workflows of an execution that run at the
same time have different *slots* (0 is the playbook's), so their ids differ. Within a slot an ``IdClock`` assigns ids:
the time is that of the fact, or that of the last id if it is later, and one millisecond more if all ordinals of a
millisecond are used.

The lower half of the ordinals is for the events that a machine writes, the upper half for the rows that the mirror
derives from history (attempts, sinks). A machine knows how many rows are derived from each fact, counts them too
(``EventIds.derived``), and gives its next event a higher id. A slot is reused by another workflow only above the last
millisecond that its previous workflow used. So no two rows have the same id. In order of id a row follows its parent,
and the events of one machine are in the order in which they happened; the ids of attempts may be later than their
times, because these rows are derived when the call ends.
"""

from __future__ import annotations

import msgspec

__all__ = ["DERIVED", "EPOCH_MS", "OBSERVED_SLOT", "SLOTS", "IdClock", "millisecond_of"]

EPOCH_MS = 1704067200000
"""2024-01-01 UTC, the epoch of every NoETL id."""

SLOTS = 1023
"""The maximum number of workflows of one execution that run at the same time, including the playbook's."""

OBSERVED_SLOT = SLOTS
"""The slot of rows that are not derived from a history, but from what the mirror read from the server
(mirror/call_pauses.py)."""

DERIVED = 4096
"""The first ordinal of derived rows. Half of the ordinals are below it."""

_ORDINAL_BITS = 13
_LOW_BITS = _ORDINAL_BITS + 10


class IdClock(msgspec.Struct):
    """The last id assigned: ``ms`` since the Unix epoch, and the number of ids in that millisecond."""

    ms: int = 0
    used: int = 0

    def next(self, time_ms: int, slot: int, first_ordinal: int = 0) -> int:
        """Return a new id for a row with this time, in milliseconds since the Unix epoch. Its ordinal is at least
        ``first_ordinal``: 0, or DERIVED for a derived row.
        """
        if time_ms > self.ms:
            self.ms, self.used = time_ms, 0
        elif self.used >= DERIVED:
            self.ms, self.used = self.ms + 1, 0
        ordinal = first_ordinal + self.used
        self.used += 1
        return (self.ms - EPOCH_MS) << _LOW_BITS | slot << _ORDINAL_BITS | ordinal

    def skip(self, time_ms: int, count: int) -> None:
        """Advance the clock as ``count`` calls of ``next`` with this time would."""
        if time_ms > self.ms:
            self.ms, self.used = time_ms, 0
        total = self.used + count
        if total > DERIVED:
            self.ms += (total - 1) // DERIVED
            total = (total - 1) % DERIVED + 1
        self.used = total


def millisecond_of(id_: int) -> int:
    """Return the time of an id, in milliseconds since the Unix epoch."""
    return (id_ >> _LOW_BITS) + EPOCH_MS
