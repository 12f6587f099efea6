"""The event trail: domain events travel in the header of the next command, so history alone has the whole log.

A workflow collects events in its ``trail``; whenever it schedules an activity or starts a child, the interceptor
moves the collected events into that command's header. The remaining events are part of the workflow's result. If many
events are collected without a command, or are too large for a header, or the run waits for a person, a marker in
history carries them: a local activity that returns its argument. The payload store may have that argument, but no
header: the SDK would take some 30 microseconds a command to offer it.
packed_trail.py encodes the events.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Protocol, cast

from temporalio import activity, workflow
from temporalio.api.common.v1 import Payload
from temporalio.worker import (
    StartActivityInput,
    StartChildWorkflowInput,
    WorkflowOutboundInterceptor,
)

from noetl_temporal.limits import STORE_FROM_BYTES
from noetl_temporal.machine.domain import DomainEvent
from noetl_temporal.messages.packed_trail import PackedTrail, pack, to_payload
from noetl_temporal.naming import TRAIL
from noetl_temporal.workflows.outbound_interceptor import OutboundInterceptor

__all__ = ["Trail", "TrailInterceptor", "WorkflowWithTrail", "record_trail"]

MARKER_BYTES = 200_000
"""Size of collected events, before they are packed, above which a marker carries them. Temporal refuses headers over
2 MB."""

HEADER_BYTES = STORE_FROM_BYTES
"""Size of packed events from which a marker carries them."""

_MARKER_SECONDS = 60
"""The timeout of the local activity that records a marker."""


class Trail:
    """The events that no command has carried yet. ``on_event`` is called with each event; tests of playbooks set it."""

    on_event: Callable[[DomainEvent], None] | None = None

    def __init__(self) -> None:
        self._events: list[DomainEvent] = []
        self._bytes = 0
        self._markers: list[asyncio.Task[Any]] = []

    def add(self, event: DomainEvent, size: int) -> None:
        """Collect an event of ``size`` bytes. If the collected events exceed MARKER_BYTES, they are recorded in a
        marker.
        """
        self._events.append(event)
        self._bytes += size
        if self.on_event is not None:
            self.on_event(event)
        if self._bytes > MARKER_BYTES:
            self.record()

    def record(self) -> None:
        """Record the collected events in a marker."""
        if self._events:
            self._record(self._pack())

    def _record(self, trail: PackedTrail) -> None:
        marker = workflow.start_local_activity(
            record_trail,
            trail,
            start_to_close_timeout=timedelta(seconds=_MARKER_SECONDS),
            summary="log",
        )
        self._markers = [*(pending for pending in self._markers if not pending.done()), marker]

    def take(self) -> PackedTrail | None:
        """Return the collected events and clear the trail; None without any."""
        return self._pack() if self._events else None

    def take_for_header(self) -> PackedTrail | None:
        """Return the collected events as ``take`` does; those too large for a header go into a marker instead."""
        trail = self.take()
        if trail is None or len(trail.data) < HEADER_BYTES:
            return trail
        self._record(trail)
        return None

    def _pack(self) -> PackedTrail:
        events, self._events, self._bytes = self._events, [], 0
        return pack(events)

    async def wait_until_recorded(self) -> bool:
        """Wait until every marker is recorded in history. Returns whether there were markers since the last wait; not
        whether one was still running, which may differ in a replay.
        """
        has_recorded = bool(self._markers)
        for marker in self._markers:
            while not marker.done():
                try:
                    await asyncio.shield(marker)
                except asyncio.CancelledError:
                    continue
        self._markers.clear()
        return has_recorded


@activity.defn(name=TRAIL)
async def record_trail(trail: PackedTrail) -> PackedTrail:
    """Return the argument: the result of a local activity is recorded in history."""
    return trail


class WorkflowWithTrail(Protocol):
    """A workflow with a trail."""

    trail: Trail


class _Outbound(WorkflowOutboundInterceptor):
    def start_activity(self, input: StartActivityInput) -> workflow.ActivityHandle[Any]:  # noqa: A002
        input.headers = {**input.headers, **_header()}
        return super().start_activity(input)

    async def start_child_workflow(self, input: StartChildWorkflowInput) -> Any:  # noqa: A002
        input.headers = {**input.headers, **_header()}
        return await super().start_child_workflow(input)


class TrailInterceptor(OutboundInterceptor):
    """Moves the trail into the headers of outgoing commands. Every worker of the workflows needs it."""

    outbound = _Outbound


def _header() -> dict[str, Payload]:
    trail = cast("WorkflowWithTrail", workflow.instance()).trail.take_for_header()
    return {} if trail is None else {TRAIL: to_payload(trail)}
