"""Writes the NoETL log: domain events with ids, times and spans, as Emit commands between the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from noetl_compiler.graph import Json, Span
from noetl_temporal.machine.budget import Budget
from noetl_temporal.machine.call import ToolCall
from noetl_temporal.machine.commands import CallTool, Command, Emit, RunChunk
from noetl_temporal.machine.domain import DomainEvent
from noetl_temporal.machine.ids import EventIds

__all__ = ["COMBINED_BYTES", "REPEATED_BYTES", "VALUE_BYTES", "Journal"]

VALUE_BYTES = 1024
"""The limit for the item of an iteration and for a value that is set: larger ones are left out of the log."""

REPEATED_BYTES = 64
"""The limit for a result that history has already: an event refers to the row of the log that has a larger one."""

COMBINED_BYTES = 10_240
"""The limit for results that no other row has: those of all pages, of a loop, and of the run."""


_NOTHING: dict[str, Any] = {}
"""An empty mapping, which is never changed."""

_encode = msgspec.json.Encoder().encode


class Feed:
    """The time of one feed, in milliseconds since the epoch, and its commands so far. The journals of a machine and of
    those inside it share it.
    """

    def __init__(self) -> None:
        self.at = 0
        self.commands: list[Command] = []


class Journal:
    """The commands of one feed, in order. Their cost is charged to the budget."""

    def __init__(self, ids: EventIds, file: str, budget: Budget) -> None:
        self.feed = Feed()
        self._ids = ids
        self._file = file
        self._budget = budget
        self._meta = _NOTHING

    def within(self, meta: Mapping[str, Any]) -> Journal:
        """Return a journal that adds ``meta`` to each event."""
        inner = Journal(self._ids, self._file, self._budget)
        inner.feed = self.feed
        inner._meta = {**self._meta, **meta}
        return inner

    def open(self, at: int) -> None:
        """Begin a feed at a time, milliseconds since the epoch."""
        self.feed.at = at
        self.feed.commands = []

    def send(self, command: Command) -> None:
        """Append a command."""
        self.feed.commands.append(command)
        if isinstance(command, RunChunk):
            self._budget.charge(len(_encode(command.input)))

    def call(self, call: ToolCall, queue: str, summary: str) -> None:
        """Append the command to run a tool."""
        size = len(_encode(call))
        self.feed.commands.append(CallTool(call, queue, summary, size))
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
        context: dict[str, Json] = _NOTHING,
        meta: dict[str, Any] | None = None,
        **more: Any,
    ) -> int:
        """Record an event and return its id. ``started`` determines its duration. ``meta`` becomes that of the event:
        the source of ``span`` is added, and ``more`` without its None values.
        """
        feed = self.feed
        at = feed.at
        meta = meta if meta is not None else {}
        if self._meta:
            meta = {**self._meta, **meta}
        if span is not None:
            meta["source"] = {"file": self._file, "line": span.line, "col": span.col}
        for name, value in more.items():
            if value is not None:
                meta[name] = value
        event = DomainEvent(  # by position: each keyword costs msgspec as much as ten positions
            self._ids.emitted.next(at, self._ids.slot),
            at,
            type_,
            node,
            kind,
            status,
            parent,
            ends,
            None if started is None else (at - started) / 1000,
            result,
            error[:500] if error else None,
            context,
            meta,
        )
        size = len(_encode(event))
        feed.commands.append(Emit(event, size))
        self._budget.charge(size)
        return event.id

    def warn(self, message: str, node: str, kind: str, parent: int, span: Span | None = None, **meta: Any) -> None:
        """Record a warning."""
        self.emit("warning", node, kind, "RUNNING", parent=parent, error=message, span=span, **meta)
