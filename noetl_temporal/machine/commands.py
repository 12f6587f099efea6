"""What a machine asks of its shell, in the imperative. Their order is part of the contract."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from noetl_compiler.graph import Json, SourceRef, Step
from noetl_temporal.machine.call import ToolCall
from noetl_temporal.machine.domain import DomainEvent
from noetl_temporal.machine.events import Failure

__all__ = ["CallTool", "Cancel", "Command", "Emit", "Finish", "FrameLimits", "LoopInput", "RunLoop", "StartTimer"]


class CallTool(msgspec.Struct, frozen=True, tag=True):
    """Run a tool. ``queue`` is symbolic; ``summary`` is what the Temporal UI shows (``fetch [http] page 3``)."""

    call: ToolCall
    queue: str
    summary: str


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


class LoopInput(msgspec.Struct, frozen=True, omit_defaults=True):
    """All a loop's own machine needs: the step, the items and the outer scope its templates name.

    ``first`` is the index of the first item (chunks of a large collection start later). ``event_id`` is that of
    ``loop.started``, the parent of every iteration. ``run`` is the run of the step whose loop this is. Ids of the log
    are those of ``slot``, above the millisecond ``after`` (event_ids.py). With a ``frame`` they run in an activity.
    """

    execution_id: int
    source: SourceRef
    step: Step
    items: list[Json]
    scope: dict[str, Json]
    slot: int
    after: int
    event_id: int
    loop_id: str
    run: str
    first: int = 0
    max_in_flight: int = 1
    frame: FrameLimits | None = None


class RunLoop(msgspec.Struct, frozen=True, tag=True):
    """Run a loop in a child workflow. ``loop_id`` is ``<step>/<n>``, the n-th run of that loop step."""

    loop_id: str
    input: LoopInput
    summary: str


class Cancel(msgspec.Struct, frozen=True, tag=True):
    """Cancel a tool call, timer or loop by its id; its end is still fed back."""

    id: str


class Emit(msgspec.Struct, frozen=True, tag=True):
    """Record a domain event in the trail."""

    event: DomainEvent


class Finish(msgspec.Struct, frozen=True, tag=True):
    """The run is over: the last command of any machine. A playbook's ``result`` is its end step's result."""

    status: Literal["completed", "failed", "cancelled"]
    result: Json = None
    failures: tuple[Failure, ...] = ()
    steps: dict[str, dict[str, Json]] = {}
    """name -> {status, attempts, duration_seconds}"""
    started: int = 0
    """When the run began, milliseconds since the epoch."""


Command: TypeAlias = CallTool | StartTimer | RunLoop | Cancel | Emit | Finish
