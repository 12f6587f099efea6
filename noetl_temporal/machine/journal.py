"""Collects the commands of a machine, among them Emit commands with the domain events of the NoETL log."""

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
"""Maximum size of an iteration's item, or of a value that is set, in the log: larger ones are abridged."""

REPEATED_BYTES = 64
"""Maximum size of a result that an event repeats. An event with a larger one refers to the row that has it."""

COMBINED_BYTES = 10_240
"""Maximum size of a result that is in no other row of the log: that of all pages, of a loop, or of the run."""


_NOTHING: dict[str, Any] = {}
"""An empty mapping, which is never changed."""

_encode = msgspec.json.Encoder().encode


class Feed:
    """One call of ``feed``: its time, in milliseconds since the epoch, and its commands so far. The journals of a
    machine and of its inner machines share it.
    """

    def __init__(self) -> None:
        self.at = 0
        self.commands: list[Command] = []


class Journal:
    """Adds commands to the current feed, in order, and their sizes to the budget. ``file`` is the name of the
    playbook's file.
    """

    def __init__(self, ids: EventIds, file: str, budget: Budget) -> None:
        self.feed = Feed()
        self._ids = ids
        self._file = file
        self._budget = budget
        self._meta = _NOTHING

    def with_meta(self, meta: Mapping[str, Any]) -> Journal:
        """Return a journal that adds ``meta`` to each event."""
        inner = Journal(self._ids, self._file, self._budget)
        inner.feed = self.feed
        inner._meta = {**self._meta, **meta}
        return inner

    def begin_feed(self, at: int) -> None:
        """Begin a feed at this time, in milliseconds since the epoch."""
        self.feed.at = at
        self.feed.commands = []

    def add(self, command: Command) -> None:
        """Add a command that is neither CallTool nor Emit."""
        self.feed.commands.append(command)
        if isinstance(command, RunChunk):
            self._budget.add_bytes(len(_encode(command.input)))

    def add_call(self, call: ToolCall, queue: str, summary: str) -> None:
        """Add the command to run a tool."""
        size = len(_encode(call))
        self.feed.commands.append(CallTool(call, queue, summary, size))
        self._budget.add_bytes(size)

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
        **extra_meta: Any,
    ) -> int:
        """Add an event and return its id. ``node``, ``kind``, ``parent`` and ``ends`` are as in DomainEvent. The
        duration counts from ``started``. ``meta`` is changed: it gets the source position of ``span``, and the entries
        of ``extra_meta`` that are not None.
        """
        feed = self.feed
        at = feed.at
        meta = meta if meta is not None else {}
        if self._meta:
            meta = {**self._meta, **meta}
        if span is not None:
            meta["source"] = {"file": self._file, "line": span.line, "col": span.col}
        for name, value in extra_meta.items():
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
        self._budget.add_bytes(size)
        return event.id

    def warn(self, message: str, node: str, kind: str, parent: int, span: Span | None = None, **meta: Any) -> None:
        """Add a warning; the other arguments are as for ``emit``."""
        self.emit("warning", node, kind, "RUNNING", parent=parent, error=message, span=span, **meta)
