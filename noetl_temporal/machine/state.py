"""What a machine remembers: plain values, so that a snapshot is their JSON (architecture.md 4).

``VERSION`` is raised when an old snapshot would be misread; a machine refuses any other.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from noetl_compiler.graph import Json
from noetl_temporal.machine.call import Outcome
from noetl_temporal.machine.events import Failure

__all__ = [
    "VERSION",
    "IterationState",
    "LoopState",
    "PipelineState",
    "PlaybookState",
    "StepRecord",
    "StepRun",
    "TaskRecord",
]

VERSION = 1

StepStatus = Literal["running", "completed", "failed", "skipped", "cancelled"]


class TaskRecord(msgspec.Struct):
    """The last outcome of a task of the pipeline, under its tool's kind (``collected`` for a collected result)."""

    kind: str
    outcome: Outcome


class PipelineState(msgspec.Struct, omit_defaults=True):
    """Where a pipeline stands.

    ``executions`` counts task executions, ``page`` the pages of the running task. ``pending`` is the id awaited: a
    call's or a timer's. ``config`` is the last rendered configuration, which the next page's patch changes.
    ``done_id`` is the ``task.done`` of the page before. ``bound`` are names of the input that a page rebound.
    ``subject`` is the task that asides stand beside, ``failure`` the outcome with which the pipeline ends after
    them, and ``failed`` the index of its task.
    """

    index: int = 0
    executions: int = 0
    page: int = 1
    phase: Literal["idle", "call", "delay", "store", "done"] = "idle"
    pending: str = ""
    config: dict[str, Json] | None = None
    collected: Json = None
    has_collected: bool = False
    records: dict[str, TaskRecord] = {}
    last: str | None = None
    attempts: int = 0
    calls: int = 0
    event_id: int = 0
    done_id: int | None = None
    started: int = 0
    deferred: list[int] = []
    bound: dict[str, Json] = {}
    subject: str | None = None
    failure: Outcome | None = None
    failed: int = 0


class StepRecord(msgspec.Struct, omit_defaults=True):
    """How a step ended last: what its name gives to templates and what the run's summary says of it."""

    status: StepStatus
    kind: str = ""
    outcome: Outcome = {}
    tasks: dict[str, TaskRecord] = {}
    attempts: int = 0
    duration: float = 0.0


class StepRun(msgspec.Struct, omit_defaults=True):
    """One run of a step. ``id`` is ``<step>#<n>``; ``args`` are the names bound for it, ``bound`` what ``set iter.x``
    wrote.
    """

    id: str
    step: str
    event_id: int
    started: int
    args: dict[str, Json] = {}
    bound: dict[str, Json] = {}
    pipeline: PipelineState | None = None
    loop_id: str | None = None
    loop_event_id: int = 0
    loop_attempts: int = 0
    timed_out: bool = False
    before: StepRecord | None = None


class PlaybookState(msgspec.Struct, omit_defaults=True):
    """A playbook's run. ``waiting`` maps a join to the steps whose tokens wait there."""

    version: int = VERSION
    ordinal: int = 0
    phase: Literal["new", "running", "finished"] = "new"
    started: int = 0
    playbook_id: int = 0
    workflow_id: int = 0
    workload: dict[str, Json] = {}
    payload: dict[str, Json] = {}
    ctx: dict[str, Json] = {}
    vars: dict[str, Json] = {}
    records: dict[str, StepRecord] = {}
    runs: dict[str, StepRun] = {}
    counts: dict[str, int] = {}
    waiting: dict[str, list[str]] = {}
    failures: list[Failure] = []
    loops: int = 0
    draining: bool = False
    cancelled: bool = False
    reason: str = ""
    leads: list[str] = []
    """The steps whose tokens arrived at the final step."""


class IterationState(msgspec.Struct, omit_defaults=True):
    """One iteration in flight. ``bound`` has what ``set iter.x`` wrote, ``ctx`` what ``set ctx.x`` wrote."""

    index: int
    event_id: int
    started: int
    pipeline: PipelineState
    bound: dict[str, Json] = {}
    ctx: dict[str, Json] = {}
    assigns: list[tuple[str, Json]] = []


class LoopState(msgspec.Struct, omit_defaults=True):
    """A loop's run. Results and assigns wait under their index until the end."""

    version: int = VERSION
    ordinal: int = 0
    phase: Literal["new", "running", "finished"] = "new"
    next: int = 0
    active: dict[str, IterationState] = {}
    results: dict[int, Json] = {}
    assigns: dict[int, list[tuple[str, Json]]] = {}
    ctx: dict[str, Json] = {}
    failed: list[int] = []
    failures: list[Failure] = []
    attempts: int = 0
    stopping: bool = False
    cancelled: bool = False
