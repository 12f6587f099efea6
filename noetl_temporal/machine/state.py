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

    ``page`` is the current page, from 1, and ``earlier_calls`` the number of its calls before the current one. The task
    ``is_open`` from its ``task.started``, the event ``event_id`` at the time ``started``, to its end; ``done_id`` is
    the ``task.done`` of the previous page. ``config`` is the last rendered configuration, which the patch of the next
    page changes; ``rebound_input`` has the names of the input that a page rebound. ``collected`` is the combined result
    of the pages so far, once one ``has_collected``. While it ``is_storing``, the next call is that of the task-level
    sinks. It ``is_last`` if a rule ended the pipeline with this task. It ``is_truncated`` if its rule requested more
    pages than it allows.
    """

    page: int = 1
    earlier_calls: int = 0
    is_open: bool = False
    event_id: int = 0
    started: int = 0
    done_id: int | None = None
    config: dict[str, Json] | None = None
    rebound_input: dict[str, Json] = {}
    collected: Json = None
    has_collected: bool = False
    is_storing: bool = False
    is_last: bool = False
    is_truncated: bool = False


class PipelineState(msgspec.Struct, omit_defaults=True):
    """The state of a pipeline.

    ``ready``: its next call may begin. In ``call``, ``delay`` and ``wait`` it waits for the operation ``pending_id``.
    ``answered``: the wait has ended or a call was refused, with the outcome ``answer``, and the pipeline may continue.

    ``index`` is that of the current task, and ``progress`` its progress. ``executions`` counts task executions and
    ``attempts`` those of all calls, of which ``retries`` repeat one. ``records`` has the last outcome of each task, by
    label. ``last_success`` is the label of the last task that succeeded, ``subject`` that of the task whose outcome
    guarded tasks see. ``failure`` is the outcome with which the pipeline ends after the guarded tasks, and
    ``failed_index`` the index of its task.
    """

    phase: PipelinePhase = "ready"
    answer: PlainOutcome | None = None
    pending_id: str = ""
    index: int = 0
    progress: TaskProgress = msgspec.field(default_factory=TaskProgress)
    executions: int = 0
    attempts: int = 0
    retries: int = 0
    records: dict[str, TaskRecord] = {}
    last_success: str | None = None
    subject: str | None = None
    failure: PlainOutcome | None = None
    failed_index: int = 0


class Pending(msgspec.Struct, omit_defaults=True):
    """An operation that a machine waits for: a ``call`` or ``delay`` of the run ``owner``, a ``chunk`` of its loop, the
    storing of its values (``store``), its ``deadline``, the ``load`` of a stored value, the end of the ``wait`` that is
    the owner, or the end of a ``hold``, when a held run of a step fails.

    Operations of the whole machine have no owner. ``due`` is when a timer fires, in milliseconds since the epoch. It
    ``is_cancelled`` if this machine has requested that it end. A deadline is suspended since ``suspended_at``, if that
    is set; before, it was suspended for ``suspended_ms`` in total (timers.py).
    """

    kind: Literal["call", "chunk", "store", "load", "delay", "deadline", "wait", "hold"]
    owner: str
    due: int = 0
    is_cancelled: bool = False
    suspended_at: int | None = None
    suspended_ms: int = 0

    def limit(self, started: int) -> float:
        """Return the seconds that a deadline allows, without the time for which it was suspended."""
        return (self.due - self.suspended_ms - started) / 1000


class Stop(msgspec.Struct, omit_defaults=True):
    """Why the machine stops, since when (milliseconds since the epoch), and how often it was cancelled."""

    kind: Literal["cancel", "timeout", "fail_fast", "limit", "budget"]
    at: int
    reason: str = ""
    cancel_count: int = 0

    @property
    def skips_cleanup(self) -> bool:
        """Whether the cleanup is skipped, after a second cancel request (semantics.md 6a)."""
        return self.cancel_count > 1


class Held(msgspec.Struct, frozen=True, omit_defaults=True):
    """The failure of a held step run (steps/holds.py): the fields of End, with the tool's ``kind``. The run is held
    since ``since`` and fails at ``due``, in milliseconds since the epoch. ``retry_decision`` is set once a person has
    decided to repeat the run, until its machine is no longer paused.
    """

    outcome: PlainOutcome
    span: Span
    since: int
    due: int
    task: str | None = None
    kind: str = ""
    attempt: int = 1
    page: int = 1
    retry_decision: HeldDecision | None = None


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

    ``ranges`` are the (first, size) of items that are not assigned to a chunk yet, in order; ``skipped_ranges`` those
    that will not run. ``chunks`` are in flight, by id; ``reports`` are those of finished chunks, by their first item;
    their ``failures`` are merged here. ``scope`` has the names that the templates of the body read, ``ctx`` what the
    iterations so far have set. With a ``frame``, chunks run as activities. ``failure`` is that of the loop itself: then
    nothing more begins. ``circuits`` are their states after the finished chunks.

    ``items`` are all ``total`` items. Once the items and scope of a large loop are stored, both are empty here:
    ``stored_items`` refers to the items of each range, by its first item, and ``scope_key`` is the key of the scope. A
    loop with ``claims`` has no items: its ranges are the rows that it may still claim, and ``total`` counts the claimed
    ones. A loop that is retried has the results of ``reused_items`` items of the failed one.
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
    stored_items: dict[int, Part] = {}
    scope_key: str = ""
    skipped_ranges: list[tuple[int, int]] = []
    reused_items: int = 0
    circuits: dict[str, CircuitState] = {}


class StepRun(Run, omit_defaults=True):
    """One run of a step. ``id`` is ``<step>#<n>``.

    ``args`` are the names that the step binds, ``iter_values`` those set with ``set iter.x``. ``earlier_record`` is the
    step's record of earlier runs. ``timeout_seconds`` is the timeout that has ended the run, if one has. ``held`` is
    set if the run has failed and waits for a person.

    ``selection`` are the items selected so far for its loop, ``loop`` is the loop once its items are selected, and
    ``loop_event_id`` its first event. ``loop_attempts``, ``loop_retries`` and ``loop_stats`` are those of its report. A
    loop in an iteration of another loop runs as a machine there, with the state ``inner`` (regions/).
    """

    step: str = ""
    timeout_seconds: float = 0.0
    args: dict[str, Json] = {}
    iter_values: dict[str, Json] = {}
    loop_event_id: int = 0
    loop_attempts: int = 0
    loop_retries: int = 0
    loop_stats: dict[str, int] = {}
    selection: Selection | None = None
    loop: LoopProgress | None = None
    inner: LoopState | None = None
    earlier_record: StepRecord | None = None
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
    """A claim of at most ``requested`` rows, made at ``since`` (milliseconds since the epoch), until all its rows are
    processed. It has ``waiting`` rows, whose iterations have not begun, and ``running`` iterations. It ``is_overtaken``
    if another claimer has processed its rows while it was claiming.
    """

    requested: int
    since: int
    is_claiming: bool = True
    is_overtaken: bool = False
    waiting: list[Json] = []
    running: int = 0


class CursorProgress(msgspec.Struct, omit_defaults=True):
    """The progress of a chunk of a loop over a cursor: the number of ``claims`` that it made, of ``claims_with_rows``
    since a claim found no row, and of ``rows`` claimed. ``claimers`` are active, by the number of their claim. It
    ``is_drained`` after a claim that was not overtaken found no rows, until a claimer has processed its rows.
    """

    claims: int = 0
    claims_with_rows: int = 0
    rows: int = 0
    is_drained: bool = False
    claimers: dict[int, Claimer] = {}


class Iteration(Run, omit_defaults=True):
    """One iteration of a loop; ``id`` is its index as text. ``iter_values`` has the names set with ``set iter.x``,
    ``ctx`` those set with ``set ctx.x``; ``assigns`` are the (target, value) that are reported to the playbook. For a
    region, ``region`` is the state of its steps, and ``arrival_results`` has the result of each arrival at its end.

    In a loop over a cursor, ``row`` was claimed by the claim with this ``claim_number``, and ``settlement`` is set when
    its tasks have ended; a run without a row is the claim itself.
    """

    index: int = 0
    claim_number: int = 0
    row: Json = None
    settlement: Settlement | None = None
    region: PlaybookState | None = None
    arrival_results: list[Json] = []
    iter_values: dict[str, Json] = {}
    ctx: dict[str, Json] = {}
    assigns: list[tuple[str, Json]] = []


class Deferral(msgspec.Struct, frozen=True):
    """A fact that waits for the stored values that it ``needs``, by the ids of their loads."""

    fact: Fact
    needs: dict[str, StoredRef]


class MachineState(msgspec.Struct, omit_defaults=True):
    """The state of every machine.

    ``pending`` are the operations in flight, ``timers`` the delays and deadlines, by id. ``ready`` names the runs whose
    next call may begin, in order. ``result_sizes`` estimates the results of calls in flight. ``waits`` are the open
    waits, by id, the oldest first. ``circuits`` are those of tasks with a circuit breaker, by <step>/<task>. While it
    ``is_idling``, nothing begins: the shell wants the run idle.

    ``deferred`` are the facts that wait for stored values, in order; ``readers`` are the runs that wait for them, by
    id, and the arrivals at steps (loads.ARRIVALS). There are none until the machine ``has_stored`` values;
    ``stored_bytes`` is the total size of stored results of calls.
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
    result_sizes: ResultSizes = msgspec.field(default_factory=ResultSizes)
    deferred: list[Deferral] = []
    readers: dict[str, dict[str, StoredRef]] = {}
    has_stored: bool = False
    stored_bytes: int = 0


class PlaybookState(MachineState, omit_defaults=True):
    """The state of a playbook's run.

    Log: ``playbook_id`` and ``workflow_id`` are the first events of the run, the parents of others. ``warned_spans``
    are those, as line:col, that the log has a warning about.

    Results: ``records`` has the last result of each step, ``run_counts`` the number of its runs. ``loop_tallies`` are
    those of the steps inside finished loops, ``route_records`` the last ones of the steps on the routes of items. The
    result of the run is that of ``return_step``, if it is set and has run; ``final_status`` is the status that the
    final step sets.

    Tokens: ``arrivals`` are tokens that move to a step, as (step, origin). ``waiting`` maps a join to the steps whose
    tokens wait there; ``final_predecessors`` are those whose tokens arrived at the final step. ``idle_starts`` counts
    the steps that started since a call ended.

    Loops: chunks get id slots from ``first_slot`` on; ``lost_slots`` are those of chunks that ended without a report.

    Large values of ``workload``, ``payload``, ``ctx`` and ``vars`` are null there once they are stored:
    ``stored_values`` has the references to them, by root and JSON pointer. ``being_stored`` names those, as
    ``ctx.rows``, and ``unmeasured`` those of unknown size (large_values.py).

    Requests: ``queued_signals`` wait by name until a step waits for them; ``sent_answers`` were sent to a chunk, by the
    id of the wait. ``request_ids`` are those of the latest requests; all up to ``oldest_request_id`` count as repeated.
    ``used_signals`` are the request ids of signals that ended a wait of a chunk before a reset, and that come again.
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
    run_counts: dict[str, int] = {}
    arrivals: list[tuple[str, str]] = []
    waiting: dict[str, list[str]] = {}
    final_predecessors: list[str] = []
    failures: FailureLog = FailureLog()
    first_slot: int = 1
    lost_slots: list[int] = []
    idle_starts: int = 0
    warned_spans: list[str] = []
    return_step: str = ""
    final_status: RunResult | None = None
    stored_values: dict[str, dict[str, StoredRef]] = {}
    being_stored: list[str] = []
    unmeasured: list[str] = []
    queued_signals: dict[str, list[Signal]] = {}
    sent_answers: dict[str, Answer] = {}
    request_ids: list[int] = []
    oldest_request_id: int = 0
    used_signals: list[int] = []


class LoopState(MachineState, omit_defaults=True):
    """The state of a chunk of a loop.

    ``next_position`` is the position in the chunk of the item that begins next. ``is_closed``: no further item may
    begin here. ``results`` and ``assigns`` are collected by the index of the item; ``stored_results`` are references to
    results of calls that are too large for ``results``. Once the results of the chunk are stored, ``results_ref``
    refers to them. ``succeeded`` counts the successful items; ``failures`` are those of items, ``failure`` is that of
    the loop itself. ``warnings`` are for the playbook. ``cursor`` is set if rows are claimed. ``steps`` are those of a
    region, summed over the iterations so far. ``route_records`` are the last ones of the steps on the routes of items,
    each with the index of its iteration.
    """

    next_position: int = 0
    runs: dict[str, Iteration] = {}
    results: dict[int, Json] = {}
    stored_results: dict[int, StoredRef] = {}
    results_ref: PayloadRef | None = None
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
