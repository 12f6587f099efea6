"""Facts fed to a machine: what happened, in the past tense. ``at`` is milliseconds since the epoch, UTC."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from noetl_compiler.graph import Json
from noetl_temporal.machine.call import ToolReport

__all__ = [
    "CancelRequested",
    "Event",
    "Failure",
    "LoopFinished",
    "LoopReport",
    "Started",
    "TimerFired",
    "ToolFinished",
]


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that failed, at its place in the playbook. ``handled`` when the playbook routed on from it."""

    step: str
    message: str
    task: str | None = None
    file: str = ""
    line: int = 0
    col: int = 0
    kind: str = ""
    iteration: int | None = None
    handled: bool = False


class LoopReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a loop came to. ``results`` has one entry an iteration in index order, ``stats`` counts {total, success,
    failed, skipped}; ``assigns`` are (target, value) pairs for ctx in index order, ``attempts`` all tool calls.
    """

    status: str
    results: list[Json] = []
    stats: dict[str, int] = {}
    failures: tuple[Failure, ...] = ()
    assigns: tuple[tuple[str, Json], ...] = ()
    attempts: int = 0


class Started(msgspec.Struct, frozen=True, tag=True):
    """The run begins. For a playbook ``payload`` is the request's; a loop takes none."""

    at: int
    payload: dict[str, Json] = {}


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


class LoopFinished(msgspec.Struct, frozen=True, tag=True):
    """A loop's child ended."""

    at: int
    loop_id: str
    report: LoopReport


class CancelRequested(msgspec.Struct, frozen=True, tag=True):
    """Someone asked the run to stop."""

    at: int
    reason: str = ""


Event: TypeAlias = Started | ToolFinished | TimerFired | LoopFinished | CancelRequested
