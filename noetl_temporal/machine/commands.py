"""The commands of a machine to its shell. Their order is part of the contract."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from noetl_compiler.graph import Json, NamesProfile, SourceRef, Step
from noetl_compiler.language.words import BranchFailure, RunResult
from noetl_temporal.machine.call import Part, StoredRef, ToolCall
from noetl_temporal.machine.circuit_state import CircuitState
from noetl_temporal.machine.domain import DomainEvent
from noetl_temporal.machine.failure_log import FailureLog
from noetl_temporal.machine.ids import shorten_id
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
    "LoadValue",
    "OpenWait",
    "PauseChildren",
    "RunChunk",
    "StartTimer",
    "StoreValues",
]


class CallTool(msgspec.Struct, frozen=True, tag=True):
    """Run a tool. ``queue`` is symbolic; ``summary`` is displayed in Temporal's UI (``fetch [http] page 3``); ``size``
    is that of the call as JSON, in bytes.
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
    """The limits of a frame: at most ``max_rows`` items, ``row_concurrency`` of them at once. It begins no further item
    after ``max_seconds``, or when the outcomes of its calls exceed ``max_bytes``.
    """

    max_rows: int
    max_seconds: float
    max_bytes: int
    row_concurrency: int


class ClaimLimits(msgspec.Struct, frozen=True):
    """The limits of a loop over claimed rows: at most ``max_rows`` per claim, ``row_concurrency`` of them at once,
    ``rows`` in total. A lease lasts ``lease_seconds`` and is renewed every ``renewal_seconds``. A row that was claimed
    ``max_attempts`` times is not released.
    """

    rows: int
    max_rows: int
    row_concurrency: int
    lease_seconds: float
    renewal_seconds: float
    max_attempts: int


class ChunkItems(msgspec.Struct, frozen=True, omit_defaults=True):
    """The part of a chunk's input that differs between chunks: its items, and the outer names that its templates read.

    ``loop_id`` is ``<step>/<n>``, the n-th run of that loop step, which has ``total`` items; ``first`` is the index of
    the first item of the chunk. ``event_id`` is the id of ``loop.started``, the parent of every iteration.
    ``step_run_id`` is the id of the step run to which the loop belongs. The chunk assigns event ids of ``slot`` in
    milliseconds later than ``after`` (event_ids.py). ``ctx`` has the values that earlier iterations set, if the loop
    ``is_sequential``.
    With a ``frame`` the items run in one activity. With ``claims`` there are no items: the chunk claims rows, with
    ``max_in_flight`` claimers at once.

    Items and scope of a large loop are in the payload store: then ``items`` and ``scope`` are empty, ``stored_items``
    refers to the items, and ``scope_key`` is the key of the scope. ``secrets_key`` is the key of the run's references
    to secrets, if it has any. ``circuits`` are the states after the previous chunks.
    """

    execution_id: int
    items: list[Json]
    scope: dict[str, Json]
    slot: int
    after: int
    event_id: int
    loop_id: str
    step_run_id: str
    total: int
    first: int = 0
    max_in_flight: int = 1
    is_sequential: bool = False
    ctx: dict[str, Json] = {}
    frame: FrameLimits | None = None
    claims: ClaimLimits | None = None
    stored_items: Part | None = None
    scope_key: str = ""
    secrets_key: str = ""
    circuits: dict[str, CircuitState] = {}

    @property
    def chunk_id(self) -> str:
        """The id of the loop; chunks after the first add the index of their first item."""
        return shorten_id(f"{self.loop_id}/{self.first}") if self.first else self.loop_id

    @property
    def size(self) -> int:
        """The number of items."""
        return len(self.items) if self.stored_items is None else self.stored_items.count


class ChunkInput(ChunkItems, frozen=True, omit_defaults=True, kw_only=True):
    """The whole input of a chunk's machine, including the fields that are the same for all chunks of a loop. ``steps``
    are those of its region and of nested regions; ``branch_failure`` says whether a failed step stops other branches.
    """

    source: SourceRef
    step: Step
    names: NamesProfile = NamesProfile()
    steps: dict[str, Step] = {}
    branch_failure: BranchFailure = "best_effort"


class RunChunk(msgspec.Struct, frozen=True, tag=True):
    """Run a chunk of a loop in a child workflow. The first chunk has the loop's id, ``<step>/<n>``; others add the
    index of their first item.
    """

    chunk_id: str
    input: ChunkInput
    summary: str


class StoreValues(msgspec.Struct, frozen=True, tag=True):
    """Store each of the values in the payload store, then feed ValuesStored. ``description`` is displayed in Temporal's
    UI.
    """

    id: str
    values: tuple[Json, ...]
    description: str


class LoadValue(msgspec.Struct, frozen=True, tag=True):
    """Load a stored value, then feed ValueLoaded."""

    id: str
    stored: StoredRef


class OpenWait(msgspec.Struct, frozen=True, tag=True):
    """Report a wait of this chunk to the playbook, which receives signals and decisions for it."""

    wait: Wait


class CloseWait(msgspec.Struct, frozen=True, tag=True):
    """Report the end of a wait of this chunk to the playbook. It ``is_answered`` if its answer ended it; ``request_id``
    is that of the request whose signal did, else 0. ``returned`` is a signal that arrived too late for the wait.
    """

    wait_id: str
    is_answered: bool = False
    returned: Signal | None = None
    request_id: int = 0


class AnswerWait(msgspec.Struct, frozen=True, tag=True):
    """Forward an answer to the chunk that waits for it, with the ids of the waits there."""

    chunk_id: str
    wait_ids: tuple[str, ...]
    answer: Answer


class PauseChildren(msgspec.Struct, frozen=True, tag=True):
    """Pause, or resume if not ``is_paused``, the chunks in flight and the called playbooks that the run waits for."""

    is_paused: bool
    by: str = ""
    reason: str = ""


class Cancel(msgspec.Struct, frozen=True, tag=True):
    """Cancel a tool call, timer, loop or load by its id. The end of a call or loop is still fed."""

    id: str


class Emit(msgspec.Struct, frozen=True, tag=True):
    """Write a domain event to the log; ``size`` is that of its JSON, in bytes."""

    event: DomainEvent
    size: int


class Finish(msgspec.Struct, frozen=True, tag=True):
    """End the run: the last command of every machine. The ``result`` of a playbook is that of its final step."""

    status: RunResult | Literal["cancelled"]
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
    | StoreValues
    | LoadValue
    | OpenWait
    | CloseWait
    | AnswerWait
    | PauseChildren
    | Cancel
    | Emit
    | Finish
)
