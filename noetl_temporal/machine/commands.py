"""What a machine asks of its shell, in the imperative. Their order is part of the contract."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from noetl_compiler.graph import Json, NamesProfile, SourceRef, Step
from noetl_compiler.language.words import BranchFailure
from noetl_temporal.machine.call import Part, StoredRef, ToolCall
from noetl_temporal.machine.circuit_state import CircuitState
from noetl_temporal.machine.domain import DomainEvent
from noetl_temporal.machine.failure_log import FailureLog
from noetl_temporal.machine.ids import fitted
from noetl_temporal.machine.waits.wait import Answer, Signal, Wait

__all__ = [
    "AnswerWait",
    "CallTool",
    "Cancel",
    "ChunkInput",
    "ChunkItems",
    "ClaimLimits",
    "CloseWait",
    "Command",
    "Emit",
    "Finish",
    "FrameLimits",
    "KeepValues",
    "LoadValue",
    "OpenWait",
    "PauseChildren",
    "RunChunk",
    "StartTimer",
]


class CallTool(msgspec.Struct, frozen=True, tag=True):
    """Run a tool. ``queue`` is symbolic; ``summary`` is what the Temporal UI shows (``fetch [http] page 3``); ``size``
    are the bytes of the call's JSON.
    """

    call: ToolCall
    queue: str
    summary: str
    size: int


class StartTimer(msgspec.Struct, frozen=True, tag=True):
    """Wait ``seconds``, then feed TimerFired."""

    timer_id: str
    seconds: float
    summary: str


class FrameLimits(msgspec.Struct, frozen=True):
    """What one frame takes: at most ``max_rows`` items, ``row_concurrency`` of them at once; it begins no further one
    after ``max_seconds``, or once the calls' outcomes have ``max_bytes``.
    """

    max_rows: int
    max_seconds: float
    max_bytes: int
    row_concurrency: int


class ClaimLimits(msgspec.Struct, frozen=True):
    """What the claimers of a loop take: at most ``max_rows`` of a claim, ``row_concurrency`` of them at once, ``rows``
    in all. A lease lasts ``lease_seconds`` and is renewed every ``renewal_seconds``. A row that was claimed
    ``max_attempts`` times is not given back.
    """

    rows: int
    max_rows: int
    row_concurrency: int
    lease_seconds: float
    renewal_seconds: float
    max_attempts: int


class ChunkItems(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a chunk of a loop has of its own: the items and the outer scope that its templates name.

    ``loop_id`` is ``<step>/<n>``, the n-th run of that loop step, which has ``total`` items; ``first`` is the index of
    the first one here. ``event_id`` is that of ``loop.started``, the parent of every iteration. ``run`` is the run of
    the step whose loop this is. Ids of the log are those of ``slot``, above the millisecond ``after`` (event_ids.py).
    ``ctx`` is what the iterations before hand on; those of a loop that ``is_sequential`` do. With a ``frame`` the items
    run in one activity. With ``claims`` there are no items: the chunk claims rows, ``max_in_flight`` claimers at once.
    Items and scope of a large loop lie elsewhere: the items are those of ``kept_items``, the scope
    is the value under ``kept_scope``. ``secrets_key`` is that of the run's references to secrets, if it has any.
    ``circuits`` are as the chunks before left them.
    """

    execution_id: int
    items: list[Json]
    scope: dict[str, Json]
    slot: int
    after: int
    event_id: int
    loop_id: str
    run: str
    total: int
    first: int = 0
    max_in_flight: int = 1
    is_sequential: bool = False
    ctx: dict[str, Json] = {}
    frame: FrameLimits | None = None
    claims: ClaimLimits | None = None
    kept_items: Part | None = None
    kept_scope: str = ""
    secrets_key: str = ""
    circuits: dict[str, CircuitState] = {}

    @property
    def chunk_id(self) -> str:
        """The first chunk has the loop's id, others add the index of their first item."""
        return fitted(f"{self.loop_id}/{self.first}") if self.first else self.loop_id

    @property
    def size(self) -> int:
        """How many items these are."""
        return len(self.items) if self.kept_items is None else self.kept_items.count


class ChunkInput(ChunkItems, frozen=True, omit_defaults=True, kw_only=True):
    """All that a chunk's machine needs: also what is the same for all chunks of a loop. ``steps`` are those of its
    region and of the regions inside of that, ``failure`` is what a failed one means for its siblings.
    """

    source: SourceRef
    step: Step
    names: NamesProfile = NamesProfile()
    steps: dict[str, Step] = {}
    failure: BranchFailure = "best_effort"


class RunChunk(msgspec.Struct, frozen=True, tag=True):
    """Run a chunk of a loop in a child workflow. The first chunk has the loop's id, ``<step>/<n>``; others add the
    index of their first item.
    """

    chunk_id: str
    input: ChunkInput
    summary: str


class KeepValues(msgspec.Struct, frozen=True, tag=True):
    """Put each of the values into the payload store, then feed ValuesKept. ``what`` they are is for people."""

    id: str
    values: tuple[Json, ...]
    what: str


class LoadValue(msgspec.Struct, frozen=True, tag=True):
    """Fetch what is stored, then feed ValueLoaded."""

    id: str
    stored: StoredRef


class OpenWait(msgspec.Struct, frozen=True, tag=True):
    """Tell the playbook of a wait of this chunk, as it is seen from outside: signals and decisions come to it."""

    wait: Wait


class CloseWait(msgspec.Struct, frozen=True, tag=True):
    """Tell the playbook that a wait of this chunk has ended, by the answer that it was handed where it ``is_answered``;
    ``returned`` is a signal that came too late for it.
    """

    wait_id: str
    is_answered: bool = False
    returned: Signal | None = None


class AnswerWait(msgspec.Struct, frozen=True, tag=True):
    """Hand an answer on to the chunk whose wait it ends, by the wait's id there."""

    chunk_id: str
    wait_id: str
    answer: Answer


class PauseChildren(msgspec.Struct, frozen=True, tag=True):
    """Pause the chunks in flight and the playbooks that are waited for, or go on with them where not ``is_paused``."""

    is_paused: bool
    by: str = ""
    reason: str = ""


class Cancel(msgspec.Struct, frozen=True, tag=True):
    """Cancel a tool call, timer, loop or load by its id; the end of a call or loop is still fed back."""

    id: str


class Emit(msgspec.Struct, frozen=True, tag=True):
    """Record a domain event in the trail; ``size`` are the bytes of its JSON."""

    event: DomainEvent
    size: int


class Finish(msgspec.Struct, frozen=True, tag=True):
    """The run is over: the last command of any machine. A playbook's ``result`` is its end step's result."""

    status: Literal["completed", "failed", "cancelled"]
    result: Json = None
    failures: FailureLog = FailureLog()
    steps: dict[str, dict[str, Json]] = {}
    """name -> {status, attempts, duration_seconds}"""
    started: int = 0
    """When the run began, milliseconds since the epoch."""


Command: TypeAlias = (
    CallTool
    | StartTimer
    | RunChunk
    | KeepValues
    | LoadValue
    | OpenWait
    | CloseWait
    | AnswerWait
    | PauseChildren
    | Cancel
    | Emit
    | Finish
)
