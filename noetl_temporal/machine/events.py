"""Facts fed to a machine: what happened, in the past tense. ``at`` is milliseconds since the epoch, UTC."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from noetl_compiler.graph import Json
from noetl_temporal.machine.call import PlainOutcome, StoredRef, ToolReport
from noetl_temporal.machine.circuit_state import CircuitState
from noetl_temporal.machine.failure_log import FailureLog
from noetl_temporal.machine.mistake import Mistake
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
    "Event",
    "HoldRequested",
    "LimitReached",
    "PauseRequested",
    "PayloadRef",
    "RestRequested",
    "Resumed",
    "RetryRequested",
    "Signalled",
    "SkipRequested",
    "Started",
    "TimerFired",
    "ToolFinished",
    "UnpauseRequested",
    "ValueLoaded",
    "ValuesKept",
    "WaitClosed",
    "WaitOpened",
]


class ChunkReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a chunk of a loop came to, or a whole loop.

    ``results`` has one entry an item in index order, ``stats`` counts {total, success, failed, skipped}, ``failures``
    are those of items; ``failure`` is how the loop itself failed, as an outcome. ``assigns`` are (index, target, value)
    for the playbook's ctx in index order, ``ctx`` what later iterations of a sequential loop see of them, ``attempts``
    all tool calls, of which ``retries`` repeat one. ``rest`` is how many items at the end were given back; neither
    results nor stats have them. ``clock`` is the last millisecond of which the chunk had ids, 0 when its workflow ended
    without a report. ``unfinished`` are the items without success, as ranges of (first index, size), where some
    succeeded. ``mistakes`` are warnings, one a place. Large results are ``stored``, and then there are none in
    ``results``. ``steps`` are those inside of a loop over steps, and their calls are told with them alone.
    ``circuits`` are as they were left. ``left`` is how the steps on the routes of items ended in the last iteration
    that ran them, with its index.
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
    rest: int = 0
    clock: int = 0
    mistakes: tuple[Mistake, ...] = ()
    stored: StoredRef | None = None
    steps: dict[str, StepTally] = {}
    unfinished: tuple[tuple[int, int], ...] = ()
    circuits: dict[str, CircuitState] = {}
    left: dict[str, tuple[int, StepRecord]] = {}


class Started(msgspec.Struct, frozen=True, tag=True):
    """The run begins. For a playbook ``payload`` is the request's, and the run's result that of ``return_step``, where
    one is named and has run; a loop takes neither."""

    at: int
    payload: dict[str, Json] = {}
    return_step: str = ""


class ToolFinished(msgspec.Struct, frozen=True, tag=True):
    """A tool call ended, well or not; ``report`` is what the activity returned, or the shell's account of its loss."""

    at: int
    call_id: str
    report: ToolReport
    cancelled: bool = False


class TimerFired(msgspec.Struct, frozen=True, tag=True):
    """A timer ran out."""

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


class ValuesKept(msgspec.Struct, frozen=True, tag=True):
    """The values of a KeepValues have been stored, in their order; an ``error`` says why they never will be."""

    at: int
    keep_id: str
    kept: tuple[PayloadRef, ...] = ()
    error: str = ""


class ValueLoaded(msgspec.Struct, frozen=True, tag=True):
    """A stored value has come; an ``error`` says why it never will."""

    at: int
    load_id: str
    value: Json = None
    error: str = ""


class CancelRequested(msgspec.Struct, frozen=True, tag=True):
    """Someone asked the run to stop; the second time, to stop without the cleanup (semantics.md 6a)."""

    at: int
    reason: str = ""


class Signalled(msgspec.Struct, frozen=True, tag=True):
    """Someone sent a signal. A repeated request has the same id."""

    at: int
    request_id: int
    signal: Signal


class Decided(msgspec.Struct, frozen=True, tag=True):
    """Someone approved or rejected. ``by`` is who they say they are."""

    at: int
    request_id: int
    wait_id: str
    approved: bool
    by: str
    reason: str = ""
    form: dict[str, Json] = {}


class PauseRequested(msgspec.Struct, frozen=True, tag=True):
    """Someone paused the run: nothing begins until UnpauseRequested. ``by`` is who they say they are. The pause of a
    playbook reaches its loops and the playbooks that it waits for without a ``request_id``.
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
    """Someone has the held ``run`` of a step repeated by the next run of the step."""

    at: int
    request_id: int
    run: str
    by: str = ""
    reason: str = ""


class SkipRequested(msgspec.Struct, frozen=True, tag=True):
    """Someone gives the held ``run`` of a step its result."""

    at: int
    request_id: int
    run: str
    data: Json = None
    by: str = ""
    reason: str = ""


class WaitOpened(msgspec.Struct, frozen=True, tag=True):
    """An iteration of a loop waits. The wait has the id that it has in the playbook's machine."""

    at: int
    wait: Wait


class WaitClosed(msgspec.Struct, frozen=True, tag=True):
    """An iteration of a loop waits no longer, because it has its answer where it ``is_answered``; ``returned`` is a
    signal that came too late for it.
    """

    at: int
    wait_id: str
    is_answered: bool = False
    returned: Signal | None = None


class Answered(msgspec.Struct, frozen=True, tag=True):
    """The playbook has an answer for a wait of this chunk."""

    at: int
    wait_id: str
    answer: Answer


class LimitReached(msgspec.Struct, frozen=True, tag=True):
    """The shell cannot carry the run on: it fails, and meets its end step as at any stop."""

    at: int
    message: str


class HoldRequested(msgspec.Struct, frozen=True, tag=True):
    """Begin nothing until Continued: the shell wants the run idle. A ``message`` is written to the log."""

    at: int
    message: str = ""


class RestRequested(msgspec.Struct, frozen=True, tag=True):
    """Begin no further item, and report those that are left: the history of a chunk is long enough."""

    at: int


class Continued(msgspec.Struct, frozen=True, tag=True):
    """A new workflow task, with a budget of its own: go on with what was left over."""

    at: int


class Resumed(msgspec.Struct, frozen=True, tag=True):
    """The machine was restored from a snapshot in a new run of the workflow, where no timer runs yet."""

    at: int


Event: TypeAlias = (
    Started
    | ToolFinished
    | TimerFired
    | ChunkFinished
    | ValuesKept
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
    | HoldRequested
    | RestRequested
    | Continued
    | Resumed
)
