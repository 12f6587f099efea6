"""The event trail: domain events travel in the header of the next command, so history alone has the whole log.

A workflow collects events in its ``trail``; whenever it schedules an activity or starts a child, the interceptor
moves what has been collected into that command's header (architecture.md 6). What no command carried goes out with
the workflow's end.
"""

from __future__ import annotations

from typing import Any, Protocol, cast

import msgspec
from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.worker import (
    Interceptor,
    StartActivityInput,
    StartChildWorkflowInput,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)

from noetl_temporal.machine.domain import DomainEvent

__all__ = ["HEADER", "Trail", "TrailInterceptor"]

HEADER = "noetl-trail"


class Trail:
    """Events not yet carried by any command."""

    def __init__(self) -> None:
        self._events: list[DomainEvent] = []

    def add(self, event: DomainEvent) -> None:
        """Collect an event."""
        self._events.append(event)

    def take(self) -> tuple[DomainEvent, ...]:
        """All that was collected; the trail is empty after."""
        events, self._events = tuple(self._events), []
        return events


class _Carrier(Protocol):
    trail: Trail


class TrailInterceptor(Interceptor):
    """Given to every worker that runs our workflows."""

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,  # noqa: A002 - the base class names it so
    ) -> type[WorkflowInboundInterceptor]:
        """See temporalio.worker.Interceptor."""
        del input
        return _Inbound


class _Inbound(WorkflowInboundInterceptor):
    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        super().init(_Outbound(outbound))


class _Outbound(WorkflowOutboundInterceptor):
    def start_activity(self, input: StartActivityInput) -> workflow.ActivityHandle[Any]:  # noqa: A002
        input.headers = {**input.headers, **_header()}
        return super().start_activity(input)

    async def start_child_workflow(self, input: StartChildWorkflowInput) -> Any:  # noqa: A002
        input.headers = {**input.headers, **_header()}
        return await super().start_child_workflow(input)


def _header() -> dict[str, Payload]:
    events = cast("_Carrier", workflow.instance()).trail.take()
    if not events:
        return {}
    return {HEADER: Payload(metadata={"encoding": b"json/plain"}, data=msgspec.json.encode(events))}
