"""The pause and the held steps of a run, with the commands that continue it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from noetl_compiler.language.timestamps import format_timestamp
from noetl_temporal.cli.open_waits import shell_word
from noetl_temporal.cli.progress import Row
from noetl_temporal.control.paused_workflows import unpause_command
from noetl_temporal.machine.held_steps import HeldStep, unique_names
from noetl_temporal.utc_time import utc_text

if TYPE_CHECKING:  # importing the machine is slow
    from noetl_temporal.messages.control_requests import OpenWaits

__all__ = ["Suspension", "SuspensionLines", "reported_suspensions", "suspension_lines"]

MAX_LINES = 10
"""The maximum number of held steps that are shown one by one."""


class Suspension(msgspec.Struct, frozen=True):
    """A pause, or a held step run with its id (``run``) and ``name``, which are empty for a pause.

    ``by`` is the person who paused the run. ``reason`` is that of the pause, or the failure of the held step run.
    ``due``, ISO 8601, is when the held step run fails. ``answer`` is the command that continues the run, ``answer_all``
    that for all held step runs.
    """

    run: str = ""
    name: str = ""
    by: str = ""
    reason: str = ""
    due: str = ""
    answer: str = ""
    answer_all: str = ""

    def line(self) -> str:
        """Return ``load[3] is held until 2026-11-30 08:00:00 UTC (no such table): noetl retry ...``."""
        by = f" by {self.by}" if self.by else ""
        until = f" until {utc_text(datetime.fromisoformat(self.due))}" if self.due else ""
        state = f"{self.name} is held{until}" if self.name else f"paused{by}"
        return f"{state}{f' ({self.reason})' if self.reason else ''}: {self.answer}"


def suspension_lines(suspensions: Sequence[Suspension], held_count: int = 0) -> Iterator[str]:
    """Yield a line for each of the first MAX_LINES suspensions, and one line for the others.

    ``held_count`` is the number of held step runs, if not all are listed.
    """
    yield from (suspension.line() for suspension in suspensions[:MAX_LINES])
    more = max(len(suspensions), held_count) - MAX_LINES
    if more > 0:
        yield f"more steps are held: {suspensions[-1].answer_all} ({more:,} more)"


def reported_suspensions(execution_id: int, waits: OpenWaits) -> Iterator[Suspension]:
    """Yield the pause and the held steps that the run reports."""
    if waits.pause is not None:
        yield _pause_suspension(execution_id, waits.pause.by, waits.pause.reason)
    yield from _hold_suspensions(execution_id, waits.held)


class SuspensionLines:
    """The suspensions of a run, from the rows of its event log."""

    def __init__(self, execution_id: int) -> None:
        self._execution_id = execution_id
        self._pause: Suspension | None = None
        self._held: dict[str, HeldStep] = {}

    def feed(self, row: Row) -> None:
        """Process one row."""
        run, meta = str(row.meta.get("step_run_id", "")), row.meta
        match row.event_type:
            case "playbook.paused":
                answer = unpause_command(meta["temporal"]["workflow_id"]) if meta.get("in_temporal") else ""
                by_and_reason = str(meta.get("by", "")), str(meta.get("reason", ""))
                self._pause = _pause_suspension(self._execution_id, *by_and_reason, answer)
            case "playbook.resumed":
                self._pause = None
            case "step.held":
                due = round(datetime.fromisoformat(meta["due"]).timestamp() * 1000)
                self._held[run] = HeldStep(run, row.node_name, row.error or "", due, meta.get("iteration"))
            case "step.released":
                self._held.pop(run, None)
            case _:
                pass

    def lines(self) -> list[str]:
        """Return the lines of the open suspensions; see ``suspension_lines``."""
        pauses = [] if self._pause is None else [self._pause]
        return list(suspension_lines([*pauses, *_hold_suspensions(self._execution_id, list(self._held.values()))]))


def _pause_suspension(execution_id: int, by: str, reason: str, answer: str = "") -> Suspension:
    return Suspension(by=by, reason=reason, answer=answer or f"noetl resume {execution_id}")


def _hold_suspensions(execution_id: int, held: Sequence[HeldStep]) -> Iterator[Suspension]:
    answer_all = f"noetl retry {execution_id} --all, or noetl skip {execution_id} --all --data JSON"
    for step, name in zip(held, unique_names(held), strict=True):
        word = shell_word(name)
        answer = f"noetl retry {execution_id} --step {word}, or noetl skip {execution_id} {word} --data JSON"
        due = format_timestamp(step.due)
        yield Suspension(step.run, name, reason=step.message, due=due, answer=answer, answer_all=answer_all)
