"""The ids that a machine hands out: of log rows, and of the calls, loops and timers that it waits for.

Rows: see event_ids.py. A machine keeps two clocks, one for its own events and one that counts, as the mirror will, the
rows derived from the calls that ended. Its next event stands above both, so an attempt's rows come before the end of
its task.

Calls: an id is made of names that a playbook's author chose, and must be unique whatever they hold. So the characters
with a meaning in an id are escaped in names, and a long id is cut and ends in a digest of the whole: Temporal refuses
ids over 255 bytes on Postgres, and a workflow task with an id over 1,000 fails for ever.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

import msgspec

from noetl_temporal.event_ids import DERIVED, IdClock, event_id, millisecond_of
from noetl_temporal.machine.call import AttemptRecord
from noetl_temporal.shortening import unique_within

__all__ = ["MAX_ID_BYTES", "EventIds", "escaped", "fitted"]

MAX_ID_BYTES = 200

_ROWS_OF_ATTEMPT = 3
_ROWS_OF_SINK = 2
_PLAIN = " .-_!@$&'()*+,;=[]{}|~^<>?\""


class EventIds(msgspec.Struct):
    """``slot`` is this machine's own among those that run; ids start above ``after``."""

    slot: int = 0
    own: IdClock = msgspec.field(default_factory=IdClock)
    derived: IdClock = msgspec.field(default_factory=IdClock)

    @classmethod
    def above(cls, slot: int, after: int) -> EventIds:
        """Ids of a slot that another machine may have had before, up to the millisecond ``after``."""
        return cls(slot, IdClock(after, DERIVED), IdClock(after, DERIVED))

    @property
    def last(self) -> int:
        """The last millisecond of which any id may have been handed out."""
        return max(self.own.ms, self.derived.ms)

    def next(self, at: int) -> int:
        """The id of one more event of the machine's own."""
        ms, ordinal = self.own.next(at)
        return event_id(ms, self.slot, ordinal)

    def leave_room(self, at: int, parent: int, attempts: Iterable[AttemptRecord]) -> None:
        """The mirror derives rows from a call that ended at ``at``: later events stand above them."""
        rows = 0
        for one in attempts:
            rows += _ROWS_OF_ATTEMPT + _ROWS_OF_SINK * len(one.sinks)
        self.derived.skip(max(at, millisecond_of(parent)), max(rows, _ROWS_OF_ATTEMPT))
        self.rise(self.derived.ms)

    def begin_run(self) -> None:
        """The workflow continued as new: ids of rows derived from the new run stand above all earlier ones."""
        self.derived = IdClock(self.last, DERIVED)

    def rise(self, ms: int) -> None:
        """Hand out no further id of this millisecond or one before."""
        if ms >= self.own.ms:
            self.own.ms, self.own.used = ms, DERIVED


def escaped(name: str) -> str:
    """A name without the characters that part an id: ``/``, ``#``, ``:`` and ``%``."""
    if name.isidentifier() and name.isascii():
        return name  # as nearly every name is
    return quote(name, safe=_PLAIN)


def fitted(id_: str) -> str:
    """The id in at most MAX_ID_BYTES."""
    return unique_within(id_, MAX_ID_BYTES)
