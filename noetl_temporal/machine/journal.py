"""Writes the NoETL log: domain events with their ids, times and places, as Emit commands between the others."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl_compiler.graph import Json, Span
from noetl_temporal.machine.budget import Budget
from noetl_temporal.machine.commands import CallTool, Command, Emit, RunChunk
from noetl_temporal.machine.domain import DomainEvent
from noetl_temporal.machine.ids import EventIds

__all__ = ["RESULT_BYTES", "Journal"]

RESULT_BYTES = 1024
"""Larger results are not repeated in events; the attempt's own row has them."""


class Journal:
    """The commands of one feed, in order; what they cost is charged to the budget."""

    def __init__(self, ids: EventIds, file: str, budget: Budget) -> None:
        self.at = 0
        self.commands: list[Command] = []
        self._ids = ids
        self._file = file
        self._budget = budget

    def open(self, at: int) -> None:
        """Begin a feed at a time, milliseconds since the epoch."""
        self.at = at
        self.commands = []

    def send(self, command: Command) -> None:
        """Append a command."""
        self.commands.append(command)
        if isinstance(command, CallTool):
            self._budget.charge(len(msgspec.json.encode(command.call)))
        elif isinstance(command, RunChunk):
            self._budget.charge(len(msgspec.json.encode(command.input)))

    def emit(
        self,
        type_: str,
        node: str,
        kind: str,
        status: str,
        *,
        parent: int | None = None,
        ends: int | None = None,
        started: int | None = None,
        result: Json = None,
        error: str | None = None,
        span: Span | None = None,
        **meta: Any,
    ) -> int:
        """Record an event and return its id. ``started`` gives a duration, ``span`` the place; None values are left
        out.
        """
        place = {"file": self._file, "line": span.line, "col": span.col} if span else None
        found = {"source": place, **meta}
        event = DomainEvent(
            id=self._ids.next(self.at),
            at=self.at,
            type=type_,
            node=node,
            kind=kind,
            status=status,
            parent=parent,
            ends=ends,
            duration=_elapsed(started, self.at),
            result=result,
            error=error[:500] if error else None,
            meta={name: value for name, value in found.items() if value is not None},
        )
        self.commands.append(Emit(event))
        self._budget.charge(len(msgspec.json.encode(event)))
        return event.id


def _elapsed(started: int | None, ended: int) -> float | None:
    """Seconds between two times in milliseconds; None without a start."""
    return None if started is None else (ended - started) / 1000
