"""The state of the fold of a run between history events."""

from __future__ import annotations

import msgspec

from noetl_temporal.event_ids import DERIVED, IdClock
from noetl_temporal.mirror.payloads import Json

__all__ = ["OpenRow", "Page", "RunState", "clock_above"]


class OpenRow(msgspec.Struct, frozen=True, array_like=True):
    """A row that started something: the fields that its end repeats. ``at`` in milliseconds since the epoch."""

    type: str
    at: int
    node: str
    kind: str
    meta: dict[str, Json] = {}


class Page(msgspec.Struct, frozen=True, array_like=True):
    """The last page of a sequence: the row of its end, and the number of calls of the pages so far."""

    row: int | None = None
    calls: int = 0


class RunState(msgspec.Struct, omit_defaults=True):
    """The state of the fold, stored as plain JSON in noetl.cursor. Times are in milliseconds since the Unix epoch.

    - ``slot`` and ``clock`` give derived rows their ids (event_ids.py); ``last`` is the time of the newest id among the
      domain events of the run.
    - ``open`` has the rows that started and have not ended, by id. ``early`` has the ids of rows whose end was read
      before their start, as a marker comes after the commands of the same workflow task.
    - ``pages`` maps a paginating task to its last page.
    - ``started`` is the parent of rows about the run as a whole: the playbook's first row, or the start of the loop.
    - ``ended`` is set once the playbook has logged its end, ``paused`` while it is paused by a person.
    - The run of a loop has a ``loop_id``, the name of its step in ``node``, and the id of the step run in ``loop_run``.
    - ``workload``, ``vars`` and ``step_results`` are the context of rows (run_context.py).
    - ``task_attempt`` is the attempt of the current workflow task, ``task_began`` the time of its start, ``timeouts``
      the number of workflow tasks that timed out in a row, ``incident`` the row of the open incident.
    - ``retry_configs`` has the retry clauses of tasks (retry_config.py).
    """

    namespace: str
    workflow_id: str
    run_id: str
    execution_id: int
    path: str
    node: str
    clock: IdClock
    slot: int = 0
    last: int = 0
    loop_id: str = ""
    loop_run: str = ""
    started: int | None = None
    ended: bool = False
    open: dict[int, OpenRow] = {}
    early: list[int] = []
    pages: dict[str, Page] = {}
    workload: dict[str, Json] = {}
    vars: dict[str, Json] = {}
    step_results: dict[str, Json] = {}
    task_attempt: int = 1
    task_began: int = 0
    timeouts: int = 0
    incident: int | None = None
    paused: bool = False
    retry_configs: dict[str, Json] = {}

    @property
    def kind(self) -> str:
        """The node type of rows about the run as a whole."""
        return "loop" if self.loop_id else "playbook"

    def inherit(self, previous: RunState) -> None:
        """Inherit the state of the run that continued as this one: its open rows are still open."""
        self.started, self.ended, self.last = previous.started, previous.ended, previous.last
        self.open, self.early, self.pages = dict(previous.open), list(previous.early), dict(previous.pages)
        self.workload, self.vars = previous.workload, dict(previous.vars)
        self.step_results = dict(previous.step_results)
        self.paused = previous.paused
        if previous.clock.ms > self.clock.ms:
            self.clock = IdClock(previous.clock.ms, previous.clock.used)


def clock_above(after: int) -> IdClock:
    """Return a clock whose ids are all above a millisecond since the epoch."""
    return IdClock(after, DERIVED)
