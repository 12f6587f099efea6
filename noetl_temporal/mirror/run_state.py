"""The state of the fold of a run between history events."""

from __future__ import annotations

import msgspec

from noetl_temporal.event_ids import DERIVED, IdClock
from noetl_temporal.mirror.payloads import Json

__all__ = ["LastPage", "OpenRow", "RunState", "clock_above"]


class OpenRow(msgspec.Struct, frozen=True, array_like=True):
    """A row that started something: the fields that its end repeats. ``at`` in milliseconds since the epoch."""

    type: str
    at: int
    node: str
    kind: str
    meta: dict[str, Json] = {}


class LastPage(msgspec.Struct, frozen=True, array_like=True):
    """The last page that a task has fetched: the id of its last row, and the number of calls of all pages so far."""

    end_id: int | None = None
    calls: int = 0


class RunState(msgspec.Struct, omit_defaults=True):
    """The state of the fold, stored as plain JSON in noetl.cursor. Times are in milliseconds since the Unix epoch.

    - ``slot`` and ``clock`` give derived rows their ids (event_ids.py); ``last_event_ms`` is the time of the newest id
      among the domain events of the run.
    - ``open_rows`` has the rows that started something that has not ended, by id. ``ended_before_start`` has the ids of
      rows whose end was read before their start, as a marker comes after the commands of the same workflow task.
    - ``last_pages`` has the last page of each task that paginates, by ``Call.sequence``.
    - ``root_event_id`` is the parent of rows about the run as a whole: the playbook's first row, or the loop's start.
    - ``has_ended`` is set once the playbook has logged its end, ``is_paused`` while it is paused by a request.
    - The run of a loop has a ``loop_id``, the name of its step in ``node``, and the id of the step run in
      ``loop_step_run_id``.
    - ``workload``, ``vars`` and ``step_results`` are the context of rows (run_context.py).
    - ``workflow_task_attempt`` is the attempt of the current workflow task, ``workflow_task_started_at`` its start,
      ``workflow_task_timeouts`` how many have timed out in a row, ``incident_id`` the row of the open incident.
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
    last_event_ms: int = 0
    loop_id: str = ""
    loop_step_run_id: str = ""
    root_event_id: int | None = None
    has_ended: bool = False
    open_rows: dict[int, OpenRow] = {}
    ended_before_start: list[int] = []
    last_pages: dict[str, LastPage] = {}
    workload: dict[str, Json] = {}
    vars: dict[str, Json] = {}
    step_results: dict[str, Json] = {}
    workflow_task_attempt: int = 1
    workflow_task_started_at: int = 0
    workflow_task_timeouts: int = 0
    incident_id: int | None = None
    is_paused: bool = False
    retry_configs: dict[str, Json] = {}

    @property
    def kind(self) -> str:
        """The node type of rows about the run as a whole."""
        return "loop" if self.loop_id else "playbook"

    def inherit(self, previous: RunState) -> None:
        """Inherit the state of the run that continued as this one: its open rows are still open."""
        self.root_event_id, self.has_ended, self.last_event_ms = (
            previous.root_event_id,
            previous.has_ended,
            previous.last_event_ms,
        )
        self.open_rows, self.ended_before_start, self.last_pages = (
            dict(previous.open_rows),
            list(previous.ended_before_start),
            dict(previous.last_pages),
        )
        self.workload, self.vars = previous.workload, dict(previous.vars)
        self.step_results = dict(previous.step_results)
        self.is_paused = previous.is_paused
        if previous.clock.ms > self.clock.ms:
            self.clock = IdClock(previous.clock.ms, previous.clock.used)


def clock_above(ms: int) -> IdClock:
    """Return a clock whose ids are all above those of this millisecond since the epoch."""
    return IdClock(ms, DERIVED)
