"""The facts that are fed to a machine. ``at`` is the time of a fact, in milliseconds since the epoch, UTC."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from noetl_compiler.graph import Json
from noetl_temporal.machine.call import PlainOutcome, StoredRef, ToolReport
from noetl_temporal.machine.circuit_state import CircuitState
from noetl_temporal.machine.condition_warning import ConditionWarning
from noetl_temporal.machine.failure_log import FailureLog
from noetl_temporal.machine.records import StepRecord
from noetl_temporal.machine.tally import StepTally
from noetl_temporal.machine.waits.wait import Answer, Signal, Wait

__all__ = [
    "Answered",
    "CancelRequested",
    "ChunkFinished",
    "ChunkReport",
    "Continued",
    "Decided",
    "Fact",
    "IdleRequested",
    "LimitReached",
    "PauseRequested",
    "PayloadRef",
    "RerunSource",
    "Restored",
    "RetryRequested",
    "ReturnRequested",
    "Signalled",
    "SkipRequested",
    "Started",
    "TimerFired",
    "ToolFinished",
    "UnpauseRequested",
    "ValueLoaded",
    "ValuesStored",
    "WaitClosed",
    "WaitOpened",
]


class ChunkReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of a chunk of a loop, or of a whole loop.

    ``results`` has one entry per item in index order, ``stats`` counts {total, success, failed, skipped}, ``failures``
    are those of items; ``failure`` is the failure of the loop itself, as an outcome. ``assigns`` are the values that
    iterations set, as (index, target, value) in index order; ``ctx`` is their effect for later iterations of a
    sequential loop. ``attempts`` counts all attempts of calls, of which ``retries`` are repetitions.

    ``unstarted`` is the number of items at the end of the chunk that did not begin and that the next chunk runs;
    neither ``results`` nor ``stats`` include them. ``last_event_ms`` is the last millisecond in which the chunk
    assigned event ids, 0 if its workflow ended without a report. ``unfinished`` are the ranges (first index, size) of
    the items without success, if some items succeeded. ``warnings`` has one for each span. Large results are
    ``stored``, and then not in ``results``. ``steps`` are the tallies of the steps of a loop over steps, which include
    their calls. ``circuits`` are the states of circuit breakers at the end. ``route_records`` are the last records of
    the steps on the routes of items, each with the index of its iteration.
    """

    status: Literal["ok", "error", "cancelled"]
    results: list[Json] = []
    stats: dict[str, int] = {}
    failures: FailureLog = FailureLog()
    failure: PlainOutcome | None = None
    assigns: tuple[tuple[int, str, Json], ...] = ()
    ctx: dict[str, Json] = {}
    attempts: int = 0
    retries: int = 0
    unstarted: int = 0
    last_event_ms: int = 0
    warnings: tuple[ConditionWarning, ...] = ()
    stored: StoredRef | None = None
    steps: dict[str, StepTally] = {}
    unfinished: tuple[tuple[int, int], ...] = ()
    circuits: dict[str, CircuitState] = {}
    route_records: dict[str, tuple[int, StepRecord]] = {}


class RerunSource(msgspec.Struct, frozen=True, omit_defaults=True):
    """The source of a rerun (machine/reruns.py): the ``state`` of the run ``execution_id`` just before ``step`` first
    started in it. References to secrets in the state are sealed with that run's ``secrets_key``. The state is None
    after the rerun has taken it over.
    """

    execution_id: int
    step: str
    secrets_key: str = ""
    state: Json = None


class Started(msgspec.Struct, frozen=True, tag=True):
    """The run begins. A loop uses none of the fields but ``at``.

    ``payload`` is that of the request. Large values of it are in the payload store: they are null in ``payload``, and
    ``stored_payload`` has the references to them under their JSON pointers. ``load_error`` says why a stored value that
    is read at the start could not be loaded. The result of the run is that of ``return_step``, if it is set and has
    run. A ``rerun`` continues from an earlier run.
    """

    at: int
    payload: dict[str, Json] = {}
    return_step: str = ""
    rerun: RerunSource | None = None
    stored_payload: dict[str, StoredRef] = {}
    load_error: str = ""


class ToolFinished(msgspec.Struct, frozen=True, tag=True):
    """A tool call ended. ``report`` is the result of the activity; the shell makes one if the activity was lost."""

    at: int
    call_id: str
    report: ToolReport
    cancelled: bool = False


class TimerFired(msgspec.Struct, frozen=True, tag=True):
    """A timer fired."""

    at: int
    timer_id: str


class ChunkFinished(msgspec.Struct, frozen=True, tag=True):
    """A chunk of a loop ended."""

    at: int
    chunk_id: str
    report: ChunkReport


class PayloadRef(msgspec.Struct, frozen=True):
    """The key of a value in the payload store, and its size as JSON."""

    key: str
    bytes: int


class ValuesStored(msgspec.Struct, frozen=True, tag=True):
    """The values of a StoreValues have been stored; ``references`` are in their order. ``error`` says why they could
    not be.
    """

    at: int
    store_id: str
    references: tuple[PayloadRef, ...] = ()
    error: str = ""


class ValueLoaded(msgspec.Struct, frozen=True, tag=True):
    """A stored value was loaded; ``error`` says why it could not be."""

    at: int
    load_id: str
    value: Json = None
    error: str = ""


class CancelRequested(msgspec.Struct, frozen=True, tag=True):
    """Someone cancelled the run; the second time, its cleanup too (semantics.md 6a)."""

    at: int
    reason: str = ""


class Signalled(msgspec.Struct, frozen=True, tag=True):
    """Someone sent a signal. A repeated request has the same id."""

    at: int
    request_id: int
    signal: Signal


class Decided(msgspec.Struct, frozen=True, tag=True):
    """Someone approved or rejected. ``by`` is the name that they gave."""

    at: int
    request_id: int
    wait_id: str
    approved: bool
    by: str
    reason: str = ""
    form: dict[str, Json] = {}


class PauseRequested(msgspec.Struct, frozen=True, tag=True):
    """Someone paused the run: nothing begins until UnpauseRequested. ``by`` is the name that they gave. The pause is
    forwarded to loops and called playbooks without a ``request_id``.
    """

    at: int
    request_id: int = 0
    by: str = ""
    reason: str = ""


class UnpauseRequested(msgspec.Struct, frozen=True, tag=True):
    """Someone resumed a paused run."""

    at: int
    request_id: int = 0
    by: str = ""
    reason: str = ""


class RetryRequested(msgspec.Struct, frozen=True, tag=True):
    """Someone retries held ``runs`` of steps."""

    at: int
    request_id: int
    runs: tuple[str, ...]
    by: str = ""
    reason: str = ""


class SkipRequested(msgspec.Struct, frozen=True, tag=True):
    """Someone skips held ``runs`` of steps and provides their result."""

    at: int
    request_id: int
    runs: tuple[str, ...]
    data: Json = None
    by: str = ""
    reason: str = ""


class WaitOpened(msgspec.Struct, frozen=True, tag=True):
    """An iteration of a loop began to wait. The id of the wait is the one in the playbook's machine. ``sender``
    identifies the workflow of the chunk, for the shell.
    """

    at: int
    wait: Wait
    sender: str = ""


class WaitClosed(msgspec.Struct, frozen=True, tag=True):
    """An iteration of a loop stopped waiting. The wait ``is_answered`` if its answer ended it; ``request_id`` is that
    of the request whose signal did, else 0. ``returned`` is a signal that arrived too late for the wait. ``sender``
    identifies the workflow of the chunk, for the shell.
    """

    at: int
    wait_id: str
    is_answered: bool = False
    returned: Signal | None = None
    request_id: int = 0
    sender: str = ""


class Answered(msgspec.Struct, frozen=True, tag=True):
    """The playbook received an answer for waits of this chunk."""

    at: int
    wait_ids: tuple[str, ...]
    answer: Answer


class LimitReached(msgspec.Struct, frozen=True, tag=True):
    """The shell cannot continue the run: the run fails, and its final step runs as after any stop."""

    at: int
    message: str


class IdleRequested(msgspec.Struct, frozen=True, tag=True):
    """Begin nothing until Continued: the shell wants the run idle. A ``message`` is written to the log."""

    at: int
    message: str = ""


class ReturnRequested(msgspec.Struct, frozen=True, tag=True):
    """Begin no further item and report the remaining ones, because the history of the chunk is long enough."""

    at: int


class Continued(msgspec.Struct, frozen=True, tag=True):
    """A new workflow task began, with a new budget for the deferred work."""

    at: int


class Restored(msgspec.Struct, frozen=True, tag=True):
    """The machine was restored from a snapshot in a new run of the workflow, where no timer runs yet."""

    at: int


Fact: TypeAlias = (
    Started
    | ToolFinished
    | TimerFired
    | ChunkFinished
    | ValuesStored
    | ValueLoaded
    | CancelRequested
    | Signalled
    | Decided
    | PauseRequested
    | UnpauseRequested
    | RetryRequested
    | SkipRequested
    | WaitOpened
    | WaitClosed
    | Answered
    | LimitReached
    | IdleRequested
    | ReturnRequested
    | Continued
    | Restored
)
