"""The pause and the held steps of a run, with the commands that continue it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from noetl_compiler.language.moments import iso
from noetl_temporal.cli.open_waits import shell_word
from noetl_temporal.cli.progress import Row
from noetl_temporal.paused_workflows import unpause_command
from noetl_temporal.utc_time import utc_text

if TYPE_CHECKING:  # importing the machine is slow
    from noetl_temporal.control_requests import OpenWaits

__all__ = ["Suspension", "SuspensionLines", "lines_of", "suspensions_of"]

MOST_LINES = 10
"""The maximum number of held steps that are shown one by one."""


class Suspension(msgspec.Struct, frozen=True):
    """A pause, or a held step run; ``run`` is empty for a pause.

    A pause has the person (``by``) and the ``reason``. The ``reason`` of a held step run is its failure; it fails at
    ``due``, ISO 8601. ``answer`` is the command that continues the run, ``answer_all`` that for all held step runs.
    """

    run: str = ""
    by: str = ""
    reason: str = ""
    due: str = ""
    answer: str = ""
    answer_all: str = ""

    def line(self) -> str:
        """Return ``load#1 is held until 2026-11-30 08:00:00 UTC (no such table): noetl retry ...``."""
        by = f" by {self.by}" if self.by else ""
        until = f" until {utc_text(datetime.fromisoformat(self.due))}" if self.due else ""
        state = f"{self.run} is held{until}" if self.run else f"paused{by}"
        return f"{state}{f' ({self.reason})' if self.reason else ''}: {self.answer}"


def lines_of(suspensions: Sequence[Suspension], held_count: int = 0) -> Iterator[str]:
    """Yield a line for each of the first MOST_LINES suspensions, and one about the others.

    ``held_count`` is the number of held step runs, if not all are listed.
    """
    yield from (suspension.line() for suspension in suspensions[:MOST_LINES])
    more = max(len(suspensions), held_count) - MOST_LINES
    if more > 0:
        yield f"more steps are held: {suspensions[-1].answer_all} ({more:,} more)"


def suspensions_of(execution_id: int, waits: OpenWaits) -> Iterator[Suspension]:
    """Yield the pause and the held steps that the run reports."""
    if waits.pause is not None:
        yield _pause_suspension(execution_id, waits.pause.by, waits.pause.reason)
    for held_step in waits.held:
        yield _hold_suspension(execution_id, held_step.run, held_step.message, iso(held_step.due))


class SuspensionLines:
    """The suspensions of a run, from the rows of its event log."""

    def __init__(self, execution_id: int) -> None:
        self._execution_id = execution_id
        self._open: dict[str, Suspension] = {}

    def feed(self, row: Row) -> None:
        """Process one row."""
        run, meta = str(row.meta.get("step_run_id", "")), row.meta
        match row.event_type:
            case "playbook.paused":
                answer = unpause_command(meta["temporal"]["workflow_id"]) if meta.get("in_temporal") else ""
                by_and_reason = str(meta.get("by", "")), str(meta.get("reason", ""))
                self._open[""] = _pause_suspension(self._execution_id, *by_and_reason, answer)
            case "playbook.resumed":
                self._open.pop("", None)
            case "step.held":
                self._open[run] = _hold_suspension(self._execution_id, run, row.error or "", str(meta.get("due", "")))
            case "step.released":
                self._open.pop(run, None)
            case _:
                pass

    def lines(self) -> list[str]:
        """Return the lines of the open suspensions; see ``lines_of``."""
        return list(lines_of(list(self._open.values())))


def _pause_suspension(execution_id: int, by: str, reason: str, answer: str = "") -> Suspension:
    return Suspension(by=by, reason=reason, answer=answer or f"noetl resume {execution_id}")


def _hold_suspension(execution_id: int, run: str, message: str, due: str) -> Suspension:
    word = shell_word(run)
    answer = f"noetl retry {execution_id} --step {word}, or noetl skip {execution_id} {word} --data JSON"
    answer_all = f"noetl retry {execution_id} --all, or noetl skip {execution_id} --all --data JSON"
    return Suspension(run, reason=message, due=due, answer=answer, answer_all=answer_all)
