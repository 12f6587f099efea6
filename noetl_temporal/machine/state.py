"""What a machine remembers: plain values, so that a snapshot is their JSON.

Every snapshot carries ``VERSION``. It is raised when an old snapshot would be misread; a machine refuses any other.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, TypeVar

import msgspec

from noetl_compiler.graph import Json, Span
from noetl_compiler.language.words import RowError
from noetl_temporal.machine.budget import ResultSizes
from noetl_temporal.machine.call import Part, PlainOutcome, StoredRef
from noetl_temporal.machine.circuit_state import CircuitState
from noetl_temporal.machine.commands import ClaimLimits, FrameLimits
from noetl_temporal.machine.events import ChunkReport, Event, PayloadRef
from noetl_temporal.machine.failure_log import FailureLog
from noetl_temporal.machine.ids import EventIds
from noetl_temporal.machine.loops.items import Selection
from noetl_temporal.machine.pause import Pause
from noetl_temporal.machine.records import StepRecord, TaskRecord
from noetl_temporal.machine.tally import StepTally
from noetl_temporal.machine.undefined import Mistake
from noetl_temporal.machine.waits.wait import Answer, Signal, Wait

__all__ = [
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
    "PipelineState",
    "PlaybookState",
    "Run",
    "Settlement",
    "StepRun",
    "Stop",
    "TaskProgress",
    "TimerKind",
    "restored",
    "state_snapshot",
]

VERSION = 3

S = TypeVar("S", bound="MachineState")

TimerKind: TypeAlias = Literal["delay", "deadline", "wait", "hold"]


class TaskProgress(msgspec.Struct, omit_defaults=True):
    """How far the pipeline's task is: all that begins anew with the next task, or after a jump.

    ``page`` counts its pages, ``calls`` those of a page that were lost. It ``is_open`` from its ``task.started``, the
    event ``event_id`` at ``started``, to its end; ``done_id`` is the ``task.done`` of the page before. ``config`` is
    the last rendered configuration, which the next page's patch changes; ``bound`` are names of the input that a page
    rebound. ``collected`` is what the pages so far come to, once one ``has_collected``. When ``storing``, its next call
    is that of its task-level sinks, after which a task that broke off the pipeline ``is_last``. ``is_cut``: its rule
    asked for more pages than it allows.
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
    is_cut: bool = False


class PipelineState(msgspec.Struct, omit_defaults=True):
    """Where a pipeline stands.

    ``ready``: its next call may begin. In ``call``, ``delay`` and ``wait`` it waits for ``pending``; ``answered`` when
    the wait has ended or a call was refused, with ``answer``, and what follows from it may begin. ``index`` is that of
    the ``task``, ``executions`` counts task executions and ``attempts`` those of all calls, of which ``retries`` repeat
    one. ``last`` is the last task that went well, ``subject`` the task that asides stand beside; ``failure`` is the
    outcome with which the pipeline ends after them, and ``failed`` the index of its task.
    """

    phase: Literal["ready", "call", "delay", "wait", "answered", "done"] = "ready"
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
    """Something a machine waits for: a ``call`` or ``delay`` of the run ``owner``, a ``chunk`` of its loop, what is to
    ``keep`` of it, its ``deadline``, the ``load`` of a stored value, or the end of the ``wait`` that is the owner.

    What concerns the whole machine has no owner. ``due`` is when a timer fires, milliseconds since the epoch.
    ``is_asked`` when it has been asked to end. A deadline does not count since ``stopped_at``, where that is set;
    earlier it did not for ``stopped_ms`` (timers.py). A ``hold`` is the time until a held run of a step fails.
    """

    kind: Literal["call", "chunk", "keep", "load", "delay", "deadline", "wait", "hold"]
    owner: str
    due: int = 0
    is_asked: bool = False
    stopped_at: int | None = None
    stopped_ms: int = 0

    def limit(self, began: int) -> float:
        """The seconds that a deadline allows, without the time for which it did not count."""
        return (self.due - self.stopped_ms - began) / 1000


class Stop(msgspec.Struct, omit_defaults=True):
    """Why a whole machine stops, since when, and how often it was asked to cancel."""

    kind: Literal["cancel", "timeout", "fail_fast", "limit", "budget"]
    at: int
    reason: str = ""
    cancels: int = 0

    @property
    def skips_cleanup(self) -> bool:
        """A second request to cancel skips the cleanup (semantics.md 6a)."""
        return self.cancels > 1


class Held(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a run of a step failed that waits for a person (steps/holds.py): as End, with the tool's ``kind``. ``since``
    and ``due`` are milliseconds since the epoch: at ``due`` the run fails.
    """

    outcome: PlainOutcome
    span: Span
    since: int
    due: int
    task: str | None = None
    kind: str = ""


class Run(msgspec.Struct):
    """One run of a pipeline, or of a loop's chunks. ``event_id`` is that of its first event; ``stop`` is why it alone
    is to end.
    """

    id: str
    event_id: int
    started: int
    pipeline: PipelineState | None = None
    stop: Literal["", "timeout"] = ""


class Chunk(msgspec.Struct, frozen=True):
    """Items of a loop that run in a workflow of their own: ``size`` from ``first`` on, at most ``share`` at once, with
    the ids of ``slot``.
    """

    first: int
    size: int
    share: int
    slot: int


class LoopProgress(msgspec.Struct, omit_defaults=True):
    """How far the loop of a step's run is (loops/chunks.py).

    ``ranges`` are (first, size) of items that no chunk has yet, in order, ``unbegun`` of those that none will have;
    ``chunks`` are in flight, by id; ``reports`` are those of chunks that ended, by their first item; their ``failures``
    are merged here. ``scope`` has what the body's templates name, ``ctx`` what the iterations so far hand on. Chunks
    run as activities where there is a ``frame``. ``failure`` is that of the loop as a whole: nothing more begins then.
    Of a large loop neither the ``items``, ``total`` of them, nor the scope stand here, once they have been stored:
    ``kept`` has where the items of each range lie, by its first item, ``kept_scope`` the scope's key. A loop with
    ``claims`` has no items: its ranges have the rows that it may still claim, and ``total`` counts those that were.
    ``circuits`` are as the chunks that ended knew them.
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
    circuits: dict[str, CircuitState] = {}


class StepRun(Run, omit_defaults=True, kw_only=True):
    """One run of a step. ``id`` is ``<step>#<n>``; ``args`` are the names bound for it, ``bound`` what ``set iter.x``
    wrote. ``before`` is the step's record of the runs before, ``selection`` the items of its loop that begins,
    ``loop`` the loop that has begun. One inside of another loop's iteration runs there, as the machine of which
    ``inner`` is the state (regions/). ``limit`` is the seconds after which it timed out. It is ``held`` where it has
    failed and waits for a person.
    """

    step: str
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


class Settlement(msgspec.Struct, frozen=True):
    """What becomes of a claimed row, and how its iteration ended: ``status``, ``outcome``, ``task`` and ``span`` as in
    pipeline.End, ``kind`` that of its last tool.
    """

    action: RowError
    status: Literal["ok", "error", "cancelled"]
    outcome: PlainOutcome
    kind: str
    task: str | None
    span: Span


class Claimer(msgspec.Struct, omit_defaults=True):
    """A claim, ``asked`` for so many rows at ``since``, until none of its rows is left: those that wait, and how many
    are worked on.
    """

    asked: int
    since: int
    is_claiming: bool = True
    waiting: list[Json] = []
    running: int = 0


class CursorProgress(msgspec.Struct, omit_defaults=True):
    """How far a chunk of a loop over a cursor is: the ``claims`` that it made, how many of them ``found`` rows since
    one found nothing, and how many ``rows`` all took. ``claimers`` are at work, by the number of their claim. It
    ``is_drained`` once a claim found nothing, until a claimer is done with its rows.
    """

    claims: int = 0
    found: int = 0
    rows: int = 0
    is_drained: bool = False
    claimers: dict[int, Claimer] = {}


class Iteration(Run, omit_defaults=True, kw_only=True):
    """One iteration of a loop; ``id`` is its index as text. ``bound`` has what ``set iter.x`` wrote, ``ctx`` what
    ``set ctx.x`` wrote. Where it runs a region, ``region`` is the state of those steps, and ``arrived`` has the result
    of each arrival at the region's end.

    In a loop over a cursor ``row`` is what the ``claim`` of this number took for it, and ``settlement`` is set when its
    tasks are done; a run without a row is the claim itself.
    """

    index: int
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

    fact: Event
    needs: dict[str, StoredRef]


class MachineState(msgspec.Struct, omit_defaults=True):
    """What every machine remembers.

    ``pending`` are the calls, chunks and whatever else is in flight, ``timers`` the delays and deadlines, by id.
    ``ready`` names the runs whose next call may begin, in order. ``deferred`` are facts, in order, that wait for stored
    values; ``readers`` are runs that do, by id, and the arrivals at steps (loads.ARRIVALS). None ever waits before one
    ``has_stored``; ``stored_bytes`` is the size of all results of calls that were stored. ``waits`` are open, by id,
    the oldest first. ``circuits`` are those of tasks that have a circuit breaker, as <step>/<task>.
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
    holding: bool = False
    sizes: ResultSizes = msgspec.field(default_factory=ResultSizes)
    deferred: list[Deferral] = []
    readers: dict[str, dict[str, StoredRef]] = {}
    has_stored: bool = False
    stored_bytes: int = 0


class PlaybookState(MachineState, omit_defaults=True):
    """A playbook's run.

    ``inside`` has the steps of loops over steps that have ended, ``left`` is how those on the routes of items ended
    last. ``arrivals`` are tokens on their way, (step, origin). ``waiting`` maps a join to the steps whose tokens wait
    there, ``leads`` are those whose tokens arrived at the final step. Id slots for chunks are looked for from
    ``first_slot`` on; ``lost_slots`` are those of chunks that ended without a report. ``idle_starts`` counts the steps
    that started since a call ended. ``warned`` are the places, line:col, of which the log has a warning. The result is
    that of ``return_step``, where one is named and has run. Large values of ``workload``, ``payload``, ``ctx`` and
    ``vars`` are ``kept`` in the payload store, by these words and their names. ``keeping`` names those that are being
    stored, as ``ctx.rows``, and ``unmeasured`` those whose size is not known yet (large_values.py). ``signals`` are
    kept by name until a step waits for them; ``handed`` are answers on their way to a wait in a chunk, by the wait's
    id. ``requests`` are the ids of the latest requests; all up to ``oldest_request`` count as repeated.
    """

    playbook_id: int = 0
    workflow_id: int = 0
    workload: dict[str, Json] = {}
    payload: dict[str, Json] = {}
    ctx: dict[str, Json] = {}
    vars: dict[str, Json] = {}
    records: dict[str, StepRecord] = {}
    left: dict[str, StepRecord] = {}
    inside: dict[str, StepTally] = {}
    runs: dict[str, StepRun] = {}
    counts: dict[str, int] = {}
    arrivals: list[tuple[str, str]] = []
    waiting: dict[str, list[str]] = {}
    leads: list[str] = []
    failures: FailureLog = FailureLog()
    first_slot: int = 1
    lost_slots: list[int] = []
    idle_starts: int = 0
    warned: list[str] = []
    return_step: str = ""
    kept: dict[str, dict[str, StoredRef]] = {}
    keeping: list[str] = []
    unmeasured: list[str] = []
    signals: dict[str, list[Signal]] = {}
    handed: dict[str, Answer] = {}
    requests: list[int] = []
    oldest_request: int = 0


class LoopState(MachineState, omit_defaults=True):
    """A run of a chunk of a loop. Results and assigns wait under their index until the end, where large results lie
    under ``stored``; ``succeeded`` counts those that ended well; ``failures`` are those of items, ``failure`` is how
    the loop itself failed. ``is_closed`` when no further item may begin here. ``mistakes`` are what the playbook is to
    warn of. ``kept`` is where the results lie that are here, once they do. ``cursor`` is set where rows are claimed.
    ``steps`` are those of a region, over the iterations so far, and ``left`` is how those on the routes of items ended
    in the last iteration that ran them, with its index.
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
    left: dict[str, tuple[int, StepRecord]] = {}
    retries: int = 0
    is_closed: bool = False
    mistakes: list[Mistake] = []
    cursor: CursorProgress | None = None


def state_snapshot(state: MachineState) -> dict[str, Json]:
    """The state as plain JSON, with the version of its format."""
    return {"version": VERSION, **msgspec.to_builtins(state, str_keys=True)}


def restored(snapshot: dict[str, Json], kind: type[S], *, strict: bool = True) -> S:
    """A snapshot's state; not ``strict`` where it has keys that are no texts. ValueError for another version's."""
    found = snapshot.get("version", "without a number")
    if found != VERSION:
        raise ValueError(
            f"this run was saved in the format of snapshot version {found}, this build reads {VERSION}: "
            "finish the run on its old workers"
        )
    return msgspec.convert(snapshot, kind, str_keys=True, strict=strict)
