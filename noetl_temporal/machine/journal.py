"""Writes the NoETL log: domain events with their ids, times and places, as Emit commands between the others."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from noetl_compiler.graph import Json, Span
from noetl_temporal.machine.budget import Budget
from noetl_temporal.machine.call import ToolCall
from noetl_temporal.machine.commands import CallTool, Command, Emit, RunChunk
from noetl_temporal.machine.domain import DomainEvent
from noetl_temporal.machine.ids import EventIds

__all__ = ["RESULT_BYTES", "Journal"]

RESULT_BYTES = 1024
"""Larger results are not repeated in events; the attempt's own row has them."""


_NO_META: Mapping[str, Any] = MappingProxyType({})
_encoded = msgspec.json.Encoder().encode


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
        if isinstance(command, RunChunk):
            self._budget.charge(len(_encoded(command.input)))

    def call(self, call: ToolCall, queue: str, summary: str) -> None:
        """Append the command to run a tool."""
        size = len(_encoded(call))
        self.commands.append(CallTool(call, queue, summary, size))
        self._budget.charge(size)

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
        meta: Mapping[str, Any] = _NO_META,
        **more: Any,
    ) -> int:
        """Record an event and return its id. ``started`` gives a duration, ``span`` the place; ``more`` is added to
        ``meta``, its None values left out.
        """
        found = dict(meta)
        if span is not None:
            found["source"] = {"file": self._file, "line": span.line, "col": span.col}
        if more:
            found |= {name: value for name, value in more.items() if value is not None}
        event = DomainEvent(
            id=self._ids.next(self.at),
            at=self.at,
            type=type_,
            node=node,
            kind=kind,
            status=status,
            parent=parent,
            ends=ends,
            duration=None if started is None else (self.at - started) / 1000,
            result=result,
            error=error[:500] if error else None,
            meta=found,
        )
        size = len(_encoded(event))
        self.commands.append(Emit(event, size))
        self._budget.charge(size)
        return event.id

    def warn(self, message: str, node: str, kind: str, parent: int, span: Span | None = None, **meta: Any) -> None:
        """Record something for a person to look at."""
        self.emit("warning", node, kind, "RUNNING", parent=parent, error=message, span=span, **meta)
