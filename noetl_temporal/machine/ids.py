"""The ids that a machine assigns: to log rows, and to the calls, loops and timers that it waits for.

Rows: see event_ids.py. A machine has two id clocks: one for its own events, and one for the rows that the mirror
derives from finished calls, which the machine only counts. The id of its next event is above both, so the rows of an
attempt precede the end of its task.

Calls: an id contains names from the playbook and must be unique, whatever characters they have. So separators are
escaped in names, and a long id is shortened and ends with a digest of the whole: Temporal refuses ids over 255 bytes on
Postgres, and a workflow task with an id over 1,000 bytes fails forever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from urllib.parse import quote

import msgspec

from noetl_temporal.event_ids import DERIVED, IdClock, millisecond_of
from noetl_temporal.machine.call import AttemptRecord
from noetl_temporal.shortening import unique_within

__all__ = ["MAX_ID_BYTES", "EventIds", "escape_name", "shorten_id"]

MAX_ID_BYTES = 200

_ROWS_OF_ATTEMPT = 3
_ROWS_OF_SINK = 2
_UNESCAPED = " .-_!@$&'()*+,;=[]{}|~^<>?\""


class EventIds(msgspec.Struct):
    """Assigns the ids of events. ``slot`` distinguishes this machine from others of the run. ``emitted`` is the clock
    of its own events, ``derived`` that of the rows that the mirror derives.
    """

    slot: int = 0
    emitted: IdClock = msgspec.field(default_factory=IdClock)
    derived: IdClock = msgspec.field(default_factory=IdClock)

    @classmethod
    def starting_after(cls, slot: int, after: int) -> EventIds:
        """Return ids for a slot that another machine may have used up to the millisecond ``after``."""
        return cls(slot, IdClock(after, DERIVED), IdClock(after, DERIVED))

    @property
    def last(self) -> int:
        """The last millisecond in which ids may have been assigned."""
        return max(self.emitted.ms, self.derived.ms)

    def next(self, at: int) -> int:
        """Return the id of the next event of the machine itself."""
        return self.emitted.next(at, self.slot)

    def reserve_derived_ids(self, at: int, parent: int, attempts: Sequence[AttemptRecord]) -> None:
        """Reserve ids for the rows that the mirror derives from the ``attempts`` of a call that ended at ``at``;
        ``parent`` is the id of the event that started its task.
        """
        rows = _ROWS_OF_ATTEMPT * (len(attempts) or 1)
        for attempt in attempts:
            rows += _ROWS_OF_SINK * len(attempt.sinks)
        self.derived.skip(max(at, millisecond_of(parent)), rows)
        if self.derived.ms >= self.emitted.ms:
            self.skip_up_to(self.derived.ms)

    def begin_workflow_run(self) -> None:
        """Continue above all earlier ids in a new workflow run, in which the mirror derives rows again."""
        self.derived = IdClock(self.last, DERIVED)

    def skip_up_to(self, ms: int) -> None:
        """Assign no further ids up to this millisecond."""
        if ms >= self.emitted.ms:
            self.emitted.ms, self.emitted.used = ms, DERIVED


def escape_name(name: str) -> str:
    """Return the name with the separators of ids escaped: ``/``, ``#``, ``:`` and ``%``."""
    if name.isidentifier() and name.isascii():
        return name  # nearly all names are ASCII identifiers
    return quote(name, safe=_UNESCAPED)


shorten_id: Callable[[str], str] = partial(unique_within, limit=MAX_ID_BYTES)
"""Return the id, shortened to at most MAX_ID_BYTES."""
