"""The budget of a machine for one workflow task (dev/decisions/0015).

Temporal does not fail a run that exceeds its limits: the run hangs, or is terminated. More than 2,000 pending
activities or 4 MB of commands are refused on every retry, and the SDK fails a workflow task that computes for two
seconds. So a machine begins a call only while the budget allows it, and defers the rest to the next workflow task. Work
is counted, never timed, so a replay stops at the same points.
"""

from __future__ import annotations

import msgspec

from noetl_compiler import templates
from noetl_compiler.graph import Json

__all__ = ["CHECKPOINT_WORK", "FACT_WORK", "MAX_PENDING", "Budget", "ResultSizes"]

MAX_PENDING = 500
"""Maximum number of calls and chunks in flight of one workflow."""

COMMAND_BYTES = 1_500_000
"""Maximum size of the commands of one workflow task, including the events in their headers."""

RESULT_BYTES = 8_000_000
"""Maximum size of the results that may arrive with one workflow task, in bytes."""

MAX_WORK = 300_000
"""Maximum work of one workflow task without its templates, in units of about a microsecond."""

MAX_TEMPLATE_WORK = 2_000_000
"""Maximum work of the templates rendered in one workflow task, in units of templating/work.py: 0.04 to 0.14 s."""

CALL_WORK = 150
"""Work of beginning a call or step."""

FACT_WORK = 300
"""Work of applying a fact."""

CHECKPOINT_WORK = 2
"""Work per run of copying a state, so that a change can be rolled back."""

_encode = msgspec.json.Encoder().encode


class ResultSizes(msgspec.Struct):
    """The number and total size of the results so far, from which those of calls in flight are estimated."""

    count: int = 0
    bytes: int = 0

    def add(self, outcome: Json, inline: int) -> None:
        """Count one more result, of which at most ``inline`` bytes are in history."""
        self.count += 1
        self.bytes += min(inline, len(_encode(outcome)))

    def max_in_flight(self) -> int:
        """Return how many calls may be in flight."""
        mean = self.bytes // self.count if self.count else 0
        return MAX_PENDING if mean <= RESULT_BYTES // MAX_PENDING else max(1, RESULT_BYTES // mean)


class Budget:
    """The part of a workflow task's limits that its machine has used. ``inline`` is the maximum size of one value in
    history, ``bytes`` the size of the commands so far.
    """

    def __init__(self, inline: int) -> None:
        self.inline = inline
        self.renew()

    def renew(self) -> None:
        """Begin a new workflow task."""
        self.bytes = self._work = 0
        self._templates_left = MAX_TEMPLATE_WORK
        self.begin_feed()

    def begin_feed(self) -> None:
        """Count the work of templates from here on: other machines of this process render some between feeds."""
        self._template_limit = templates.work_done() + self._templates_left

    def end_feed(self) -> None:
        """Stop counting the work of templates."""
        self._templates_left = self._template_limit - templates.work_done()

    def add_bytes(self, size: int) -> None:
        """Add the size of a command or event; one that is stored elsewhere has at most ``inline`` bytes in history."""
        self.bytes += size if size < self.inline else self.inline

    def add_work(self, amount: int = CALL_WORK) -> None:
        """Add work, in units of about a microsecond."""
        self._work += amount

    def is_spent(self) -> bool:
        """Whether no more calls may begin in this workflow task."""
        return self.bytes >= COMMAND_BYTES or self._work >= MAX_WORK or templates.work_done() >= self._template_limit
