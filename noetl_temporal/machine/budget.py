"""What a machine may ask of one workflow task (dev/decisions/0015).

Temporal does not fail a run that asks for too much: it hangs, or is terminated. More than 2,000 pending activities or
4 MB of commands are refused on every retry, and the SDK fails a workflow task that computes for two seconds. So a
machine begins a call only while the budget allows it, and defers the rest to the next workflow task. Work is counted,
never timed, so that a replay stops at the same points.
"""

from __future__ import annotations

import msgspec

from noetl_compiler import templates
from noetl_compiler.graph import Json

__all__ = ["CHECKPOINT_WORK", "FACT_WORK", "MAX_PENDING", "Budget", "ResultSizes"]

MAX_PENDING = 500
"""Calls and loops in flight of one workflow."""

COMMAND_BYTES = 1_500_000
"""Of commands of one workflow task, the events in their headers included."""

RESULT_BYTES = 8_000_000
"""Of the results that may arrive with one workflow task."""

MAX_WORK = 300_000
"""Computation of one workflow task, its templates excluded, in units of about a microsecond."""

MAX_TEMPLATE_WORK = 2_000_000
"""Of all templates rendered in one workflow task, 0.04 to 0.14 s (templating/work.py)."""

CALL_WORK = 150
"""Of a call or step that begins."""

FACT_WORK = 300
"""Of a fact that is taken."""

CHECKPOINT_WORK = 2
"""Of each run of a state that is copied, so that a change can be rolled back."""


class ResultSizes(msgspec.Struct):
    """Count and total size of the results so far, an estimate for those of calls in flight."""

    count: int = 0
    bytes: int = 0

    def add(self, outcome: Json, inline: int) -> None:
        """Count one more result, of which at most ``inline`` bytes stand in history."""
        self.count += 1
        self.bytes += min(inline, len(msgspec.json.encode(outcome)))

    @property
    def max_in_flight(self) -> int:
        """How many calls may be in flight."""
        mean = self.bytes // self.count if self.count else 0
        return MAX_PENDING if mean <= RESULT_BYTES // MAX_PENDING else max(1, RESULT_BYTES // mean)


class Budget:
    """What is left of one workflow task. ``inline`` is the most bytes that one value has in history; ``bytes`` is the
    size of the commands so far.
    """

    def __init__(self, inline: int) -> None:
        self.inline = inline
        self.renew()

    def renew(self) -> None:
        """A new workflow task begins."""
        self.bytes = self._work = self._template_work = 0
        self._since = templates.work_done()

    def open(self) -> None:
        """A feed begins: only what is rendered from here on counts, not what others of this process rendered."""
        self._since = templates.work_done()

    def close(self) -> None:
        """The feed is over."""
        done = templates.work_done()
        self._template_work, self._since = self._template_work + done - self._since, done

    def charge(self, size: int) -> None:
        """Count the bytes of a command or event."""
        self.bytes += min(self.inline, size)

    def work(self, amount: int = CALL_WORK) -> None:
        """Count computation, in units of about a microsecond."""
        self._work += amount

    @property
    def is_spent(self) -> bool:
        """Whether no more may begin in this workflow task."""
        if self.bytes >= COMMAND_BYTES or self._work >= MAX_WORK:
            return True
        return self._template_work + templates.work_done() - self._since >= MAX_TEMPLATE_WORK
