"""The state of a machine: plain values, so that a snapshot is their JSON.

Every snapshot has a ``VERSION``. It is increased when the format changes incompatibly; a machine refuses any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias, TypeVar

import msgspec

from noetl_compiler.graph import Json, Span
from noetl_compiler.language.words import RowError, RunResult
from noetl_temporal.machine.budget import ResultSizes
from noetl_temporal.machine.call import Part, PlainOutcome, StoredRef
from noetl_temporal.machine.circuit_state import CircuitState
from noetl_temporal.machine.commands import ClaimLimits, FrameLimits
from noetl_temporal.machine.condition_warning import ConditionWarning
from noetl_temporal.machine.facts import ChunkReport, Fact, PayloadRef
from noetl_temporal.machine.failure_log import Failure, FailureLog
from noetl_temporal.machine.ids import EventIds
from noetl_temporal.machine.loops.items import Selection
from noetl_temporal.machine.pause import Pause
from noetl_temporal.machine.records import StepRecord, TaskRecord
from noetl_temporal.machine.tally import StepTally
from noetl_temporal.machine.waits.wait import Answer, HeldDecision, Signal, Wait

__all__ = [
    "FOLLOWING_PHASES",
    "VERSION",
    "Chunk",
    "Claimer",
    "CursorProgress",
    "Deferral",
    "Held",
    "Iteration",
    "LoopProgress",
    "LoopState",
    "MachineState",
    "Pending",
    "PipelinePhase",
    "PipelineState",
    "PlaybookState",
    "Run",
    "Settlement",
    "StepRun",
    "Stop",
    "TaskProgress",
    "TimerKind",
    "restore_state",
    "state_snapshot",
]

VERSION = 3

S = TypeVar("S", bound="MachineState")

TimerKind: TypeAlias = Literal["delay", "deadline", "wait", "hold"]
PipelinePhase: TypeAlias = Literal["ready", "call", "delay", "wait", "answered", "done"]

FOLLOWING_PHASES: Mapping[PipelinePhase, tuple[PipelinePhase, ...]] = MappingProxyType(
    {
        "ready": ("call", "wait", "answered", "done"),
        "call": ("ready", "delay", "wait", "done"),
        "delay": ("ready", "done"),
        "wait": ("answered", "ready", "done"),
        "answered": ("ready", "delay", "wait", "done"),
        "done": (),
    }
)
"""Phase of a pipeline -> the phases that may follow it."""


class TaskProgress(msgspec.Struct, omit_defaults=True):
    """The progress of the pipeline's current task: everything that is reset for the next task, or after a jump.

    ``page`` counts its pages, ``calls`` the lost calls of a page. It ``is_open`` from its ``task.started``, the event
    ``event_id`` at ``started``, to its end; ``done_id`` is the ``task.done`` of the previous page. ``config`` is the
    last rendered configuration, which the patch of the next page changes; ``bound`` are names of the input that a page
    rebound. ``collected`` is the running result of the pages, once one ``has_collected``. When ``storing``, the next
    call is that of the task-level sinks; if the task ended the pipeline early, it ``is_last``. ``is_truncated``: its
    rule requested more pages than it allows.
    """

    page: int = 1
    calls: int = 0
    is_open: bool = False
    event_id: int = 0
    started: int = 0
    done_id: int | None = None
    config: dict[str, Json] | None = None
    bound: dict[str, Json] = {}
    collected: Json = None
    has_collected: bool = False
    storing: bool = False
    is_last: bool = False
    is_truncated: bool = False


class PipelineState(msgspec.Struct, omit_defaults=True):
    """The state of a pipeline.

    ``ready``: its next call may begin. In ``call``, ``delay`` and ``wait`` it waits for ``pending``; ``answered``: the
    wait has ended or a call was refused, with ``answer``, and the pipeline may continue. ``index`` is that of the
    ``task``, ``executions`` counts task executions and ``attempts`` those of all calls, of which ``retries`` repeat
    one. ``last`` is the last task that succeeded, ``subject`` the task whose outcome guarded tasks see; ``failure`` is
    the outcome with which the pipeline ends after them, and ``failed`` the index of its task.
    """

    phase: PipelinePhase = "ready"
    answer: PlainOutcome | None = None
    pending: str = ""
    index: int = 0
    task: TaskProgress = msgspec.field(default_factory=TaskProgress)
    executions: int = 0
    attempts: int = 0
    retries: int = 0
    records: dict[str, TaskRecord] = {}
    last: str | None = None
    subject: str | None = None
    failure: PlainOutcome | None = None
    failed: int = 0


class Pending(msgspec.Struct, omit_defaults=True):
    """An operation that a machine waits for: a ``call`` or ``delay`` of the run ``owner``, a ``chunk`` of its loop, the
    storing of its values (``store``), its ``deadline``, the ``load`` of a stored value, the end of the ``wait`` that is
    the owner, or the end of a ``hold``, when a held run of a step fails.

    Operations of the whole machine have no owner. ``due`` is when a timer fires, in milliseconds since the epoch.
    It ``is_cancelled`` if this machine has requested that it end. A deadline is suspended since ``stopped_at``, if that
    is set; before, it was suspended for ``stopped_ms`` in total (timers.py).
    """

    kind: Literal["call", "chunk", "store", "load", "delay", "deadline", "wait", "hold"]
    owner: str
    due: int = 0
    is_cancelled: bool = False
    stopped_at: int | None = None
    stopped_ms: int = 0

    def limit(self, started: int) -> float:
        """Return the seconds that a deadline allows, without the time for which it was suspended."""
        return (self.due - self.stopped_ms - started) / 1000


class Stop(msgspec.Struct, omit_defaults=True):
    """Why the machine stops, since when, and how often it was cancelled."""

    kind: Literal["cancel", "timeout", "fail_fast", "limit", "budget"]
    at: int
    reason: str = ""
    cancels: int = 0

    @property
    def skips_cleanup(self) -> bool:
        """Whether the cleanup is skipped, after a second cancel request (semantics.md 6a)."""
        return self.cancels > 1


class Held(msgspec.Struct, frozen=True, omit_defaults=True):
    """The failure of a held step run (steps/holds.py): the fields of End, with the tool's ``kind``. ``since`` and
    ``due`` are in milliseconds since the epoch: at ``due`` the run fails. ``retry`` is set once somebody has decided to
    repeat the run, until its machine is no longer paused.
    """

    outcome: PlainOutcome
    span: Span
    since: int
    due: int
    task: str | None = None
    kind: str = ""
    retry: HeldDecision | None = None


class Run(msgspec.Struct):
    """One run of a pipeline, or of a loop's chunks. ``event_id`` is that of its first event; ``stop`` is why this run
    must stop.
    """

    id: str
    event_id: int
    started: int
    pipeline: PipelineState | None = None
    stop: Literal["", "timeout"] = ""


class Chunk(msgspec.Struct, frozen=True):
    """Items of a loop that run in a workflow of their own: ``size`` items from index ``first``, at most ``share`` at
    once, with event ids of ``slot``.
    """

    first: int
    size: int
    share: int
    slot: int


class LoopProgress(msgspec.Struct, omit_defaults=True):
    """The progress of the loop of a step run (loops/chunks.py).

    ``ranges`` are the (first, size) of items that are not assigned to a chunk yet, in order; ``unbegun`` those that
    will not run. ``chunks`` are in flight, by id; ``reports`` are those of finished chunks, by their first item; their
    ``failures`` are merged here. ``scope`` has the names that the templates of the body read, ``ctx`` what the
    iterations so far have set. With a ``frame``, chunks run as activities. ``failure`` is that of the loop itself: then
    nothing more begins. Once the ``items`` (``total`` of them) and the scope of a large loop are stored, they are not
    here: ``kept`` has the references to the items of each range, by its first item, and ``kept_scope`` the key of the
    scope. A loop with ``claims`` has no items: its ranges are the rows that it may still claim, and ``total`` counts
    the claimed ones. A loop that is retried has the results of so many ``reused_items`` of the failed one.
    ``circuits`` are their states after the finished chunks.
    """

    id: str
    total: int
    items: list[Json]
    scope: dict[str, Json]
    max_in_flight: int
    ranges: list[tuple[int, int]]
    chunks: dict[str, Chunk] = {}
    reports: dict[int, ChunkReport] = {}
    failures: FailureLog = FailureLog()
    ctx: dict[str, Json] = {}
    frame: FrameLimits | None = None
    claims: ClaimLimits | None = None
    failure: PlainOutcome | None = None
    kept: dict[int, Part] = {}
    kept_scope: str = ""
    unbegun: list[tuple[int, int]] = []
    reused_items: int = 0
    circuits: dict[str, CircuitState] = {}


class StepRun(Run, omit_defaults=True):
    """One run of a step. ``id`` is ``<step>#<n>``; ``args`` are the names bound for it, ``bound`` those set with
    ``set iter.x``. ``before`` is the step's record of earlier runs, ``selection`` the items selected so far for its
    loop, ``loop`` the loop once it has begun. A loop in an iteration of another loop runs as a machine there, with the
    state ``inner`` (regions/). ``limit`` is the timeout in seconds, if it timed out. ``held`` is set if it has failed
    and waits for a person.
    """

    step: str = ""
    limit: float = 0.0
    args: dict[str, Json] = {}
    bound: dict[str, Json] = {}
    loop_event_id: int = 0
    loop_attempts: int = 0
    loop_retries: int = 0
    loop_stats: dict[str, int] = {}
    selection: Selection | None = None
    loop: LoopProgress | None = None
    inner: LoopState | None = None
    before: StepRecord | None = None
    held: Held | None = None

    @property
    def keeps_items(self) -> bool:
        """Whether a retry runs only the items that did not succeed: those of a loop over a list, if it has begun."""
        return self.loop is not None and self.loop.claims is None


class Settlement(msgspec.Struct, frozen=True):
    """Whether a claimed row is acknowledged or released, and how its iteration ended: ``status``, ``outcome``, ``task``
    and ``span`` as in task_executions.End, ``kind`` that of its last tool. ``cause`` is what failed first in an
    iteration of several steps.
    """

    action: RowError
    status: Literal["ok", "error", "cancelled"]
    outcome: PlainOutcome
    kind: str
    task: str | None
    span: Span
    cause: Failure | None = None


class Claimer(msgspec.Struct, omit_defaults=True):
    """A claim of at most ``requested`` rows, made at ``since``, until all its rows are processed: ``waiting`` rows, and
    the number of ``running`` ones. It ``is_overtaken`` if another claimer has processed its rows while it was claiming.
    """

    requested: int
    since: int
    is_claiming: bool = True
    is_overtaken: bool = False
    waiting: list[Json] = []
    running: int = 0


class CursorProgress(msgspec.Struct, omit_defaults=True):
    """The progress of a chunk of a loop over a cursor: the ``claims`` that it made, how many of them ``found`` rows
    since one found none, and the number of ``rows`` claimed. ``claimers`` are active, by the number of their claim. It
    ``is_drained`` after a claim that was not overtaken found no rows, until a claimer has processed its rows.
    """

    claims: int = 0
    found: int = 0
    rows: int = 0
    is_drained: bool = False
    claimers: dict[int, Claimer] = {}


class Iteration(Run, omit_defaults=True):
    """One iteration of a loop; ``id`` is its index as text. ``bound`` has the names set with ``set iter.x``, ``ctx``
    those set with ``set ctx.x``. For a region, ``region`` is the state of its steps, and ``arrived`` has the result of
    each arrival at its end.

    In a loop over a cursor, ``row`` was claimed by the ``claim`` of this number, and ``settlement`` is set when its
    tasks have ended; a run without a row is the claim itself.
    """

    index: int = 0
    claim: int = 0
    row: Json = None
    settlement: Settlement | None = None
    region: PlaybookState | None = None
    arrived: list[Json] = []
    bound: dict[str, Json] = {}
    ctx: dict[str, Json] = {}
    assigns: list[tuple[str, Json]] = []


class Deferral(msgspec.Struct, frozen=True):
    """A fact that waits for the stored values that it ``needs``, by the ids of their loads."""

    fact: Fact
    needs: dict[str, StoredRef]


class MachineState(msgspec.Struct, omit_defaults=True):
    """The state of every machine.

    ``pending`` are the operations in flight, ``timers`` the delays and deadlines, by id. ``ready`` names the runs whose
    next call may begin, in order. ``deferred`` are the facts that wait for stored values, in order; ``readers`` are the
    runs that wait for them, by id, and the arrivals at steps (loads.ARRIVALS). There are none until the machine
    ``has_stored`` values; ``stored_bytes`` is the total size of stored results of calls. ``waits`` are the open waits,
    by id, the oldest first. ``circuits`` are those of tasks with a circuit breaker, by <step>/<task>. While it
    ``is_idling``, nothing begins: the shell wants the run idle.
    """

    phase: Literal["new", "running", "ended"] = "new"
    started: int = 0
    ids: EventIds = msgspec.field(default_factory=EventIds)
    pending: dict[str, Pending] = {}
    timers: dict[str, Pending] = {}
    waits: dict[str, Wait] = {}
    circuits: dict[str, CircuitState] = {}
    ready: list[str] = []
    stop: Stop | None = None
    pause: Pause | None = None
    is_idling: bool = False
    sizes: ResultSizes = msgspec.field(default_factory=ResultSizes)
    deferred: list[Deferral] = []
    readers: dict[str, dict[str, StoredRef]] = {}
    has_stored: bool = False
    stored_bytes: int = 0


class PlaybookState(MachineState, omit_defaults=True):
    """The state of a playbook's run.

    ``loop_tallies`` are those of the steps inside finished loops, ``route_records`` the last ones of the steps on the
    routes of items. ``arrivals`` are tokens that move to a step, as (step, origin). ``waiting`` maps a join to the
    steps whose tokens wait there; ``final_predecessors`` are those whose tokens arrived at the final step. Chunks get
    id slots from ``first_slot`` on; ``lost_slots`` are those of chunks that ended without a report. ``idle_starts``
    counts the steps that started since a call ended. ``warned`` are the spans, as line:col, that the log has a warning
    about. The result is that of ``return_step``, if it is set and has run; ``given_status`` is the status that the
    final step gave. Large values of ``workload``, ``payload``, ``ctx`` and ``vars`` are ``kept`` in the payload store,
    by root and name. ``being_stored`` names those that are being stored, as ``ctx.rows``, and ``unmeasured`` those of
    unknown size (large_values.py). ``signals`` are kept by name until a step waits for them; ``sent_answers`` are those
    sent to a chunk, by the id of the wait. ``requests`` are the ids of the latest requests; all up to
    ``oldest_request`` count as repeated. ``used_signals`` are those of signals that ended a wait of a chunk before a
    reset, and that come again.
    """

    playbook_id: int = 0
    workflow_id: int = 0
    workload: dict[str, Json] = {}
    payload: dict[str, Json] = {}
    ctx: dict[str, Json] = {}
    vars: dict[str, Json] = {}
    records: dict[str, StepRecord] = {}
    route_records: dict[str, StepRecord] = {}
    loop_tallies: dict[str, StepTally] = {}
    runs: dict[str, StepRun] = {}
    counts: dict[str, int] = {}
    arrivals: list[tuple[str, str]] = []
    waiting: dict[str, list[str]] = {}
    final_predecessors: list[str] = []
    failures: FailureLog = FailureLog()
    first_slot: int = 1
    lost_slots: list[int] = []
    idle_starts: int = 0
    warned: list[str] = []
    return_step: str = ""
    given_status: RunResult | None = None
    kept: dict[str, dict[str, StoredRef]] = {}
    being_stored: list[str] = []
    unmeasured: list[str] = []
    signals: dict[str, list[Signal]] = {}
    sent_answers: dict[str, Answer] = {}
    requests: list[int] = []
    oldest_request: int = 0
    used_signals: list[int] = []


class LoopState(MachineState, omit_defaults=True):
    """The state of a chunk of a loop. Results and assigns are collected by index, large results as references under
    ``stored``; ``succeeded`` counts the successful items; ``failures`` are those of items, ``failure`` is that of the
    loop itself. ``is_closed``: no further item may begin here. ``warnings`` are for the playbook. ``kept`` are
    the references to the results of the chunk, once they are stored. ``cursor`` is set if rows are claimed. ``steps``
    are those of a region, summed over the iterations so far. ``route_records`` are the last ones of the steps on the
    routes of items, each with the index of its iteration.
    """

    next: int = 0
    runs: dict[str, Iteration] = {}
    results: dict[int, Json] = {}
    stored: dict[int, StoredRef] = {}
    kept: PayloadRef | None = None
    assigns: dict[int, list[tuple[str, Json]]] = {}
    ctx: dict[str, Json] = {}
    failures: FailureLog = FailureLog()
    failure: PlainOutcome | None = None
    succeeded: int = 0
    attempts: int = 0
    steps: dict[str, StepTally] = {}
    route_records: dict[str, tuple[int, StepRecord]] = {}
    retries: int = 0
    is_closed: bool = False
    warnings: list[ConditionWarning] = []
    cursor: CursorProgress | None = None


def state_snapshot(state: MachineState) -> dict[str, Json]:
    """Return the state as plain JSON, with the version of its format."""
    return {"version": VERSION, **msgspec.to_builtins(state, str_keys=True)}


def restore_state(snapshot: dict[str, Json], kind: type[S], *, strict: bool = True) -> S:
    """Return the state in a snapshot; not ``strict`` if its keys may be other than text. Raises ValueError for another
    version.
    """
    version = snapshot.get("version", "without a number")
    if version != VERSION:
        raise ValueError(
            f"this run was saved in the format of snapshot version {version}, this build reads {VERSION}: "
            "finish the run on its old workers"
        )
    return msgspec.convert(snapshot, kind, str_keys=True, strict=strict)
