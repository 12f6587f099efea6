"""The clocks of a run on Temporal: each of its workflows has one, which skips timers and delays.

The clock of a workflow stops while a call or a child workflow (a loop) runs. While a test has requests to send, its
clocks advance one timer at a time, and not beyond the time of the next request.
"""

from __future__ import annotations

import uuid
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias

from google.protobuf.field_mask_pb2 import FieldMask
from temporalio.api.common.v1 import FastForwardConfig, TimeSkippingConfig, WorkflowExecution
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflow.v1 import WorkflowExecutionOptions
from temporalio.api.workflowservice.v1 import UpdateWorkflowExecutionOptionsRequest
from temporalio.client import Client, Interceptor, OutboundInterceptor, StartWorkflowInput, WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode

__all__ = ["Clocks", "TimeSkippingInterceptor", "WorkflowClock"]

MAX_SKIPS = 100_000
"""The maximum number of time skips of one workflow: more than any test needs. The server's default is 100."""

_Handle: TypeAlias = WorkflowHandle[Any, Any]


@dataclass(frozen=True)
class WorkflowClock:
    """The clock of one workflow at the time ``now``. ``calls`` is the number of its pending activities, ``running``
    that of activities that do not wait for their next attempt, ``children`` are the ids of its child workflows.
    ``has_workflow_task`` while a workflow task is pending. ``skips_waits`` if the clock skips timers and delays.
    ``events`` is the number of events in its history, without those that ``Clocks`` has caused.
    """

    handle: _Handle
    now: datetime
    calls: int
    running: int
    children: tuple[str, ...]
    has_workflow_task: bool
    skips_waits: bool
    events: int


class Clocks:
    """The clocks of the workflows of one run."""

    def __init__(self, client: Client, workflow_id: str) -> None:
        self._client = client
        self._id = workflow_id
        self._caused_events: Counter[str] = Counter()

    async def read(self) -> list[WorkflowClock]:
        """Return the clocks of the open workflows of the run, the playbook's first; none after the run has ended."""
        clocks: list[WorkflowClock] = []
        pending = [self._id]
        while pending:
            clock = await self._read_clock(pending.pop(0))
            if clock is not None:
                clocks.append(clock)
                pending += clock.children
            elif not clocks:
                return []
        return clocks

    async def _read_clock(self, workflow_id: str) -> WorkflowClock | None:
        """Return the clock of a workflow; None if it has ended. One that its parent is about to start counts as
        working.
        """
        handle = self._client.get_workflow_handle(workflow_id)
        try:
            description = await handle.describe()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return WorkflowClock(
                handle, datetime.now(UTC), 0, 0, (), has_workflow_task=True, skips_waits=False, events=0
            )
        raw = description.raw_description
        if description.close_time is not None:
            return None
        waiting = PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED
        calls = len(raw.pending_activities)
        running = sum(activity.state != waiting or activity.attempt == 1 for activity in raw.pending_activities)
        extended_info = raw.workflow_extended_info
        skipping = extended_info.time_skipping_info if extended_info.HasField("time_skipping_info") else None
        now = skipping.current_time.ToDatetime(UTC) if skipping else datetime.now(UTC)
        children = tuple(child.workflow_id for child in raw.pending_children)
        has_workflow_task = raw.HasField("pending_workflow_task")
        skips_waits = skipping is not None and skipping.effective_config.enabled
        events = description.history_length - self._caused_events[workflow_id]
        return WorkflowClock(handle, now, calls, running, children, has_workflow_task, skips_waits, events)

    async def advance(self, clocks: list[WorkflowClock], until: datetime | None) -> bool:
        """Advance the slowest clock that can advance to its next timer, at most to ``until``. Returns whether a clock
        was advanced.
        """
        for clock in sorted(clocks, key=lambda clock: clock.now):
            has_arrived = until is not None and clock.now >= until
            if clock.running or clock.children or has_arrived:
                continue
            config = TimeSkippingConfig(enabled=True, max_session_skip_count=1)
            if until is not None:
                fast_forward = FastForwardConfig(id=str(uuid.uuid4()))
                fast_forward.duration.FromTimedelta(until - clock.now)
                config.fast_forward_config.CopyFrom(fast_forward)
            if await self._set(clock, config) and await self._has_advanced(clock):
                return True
        return False

    async def _has_advanced(self, clock: WorkflowClock) -> bool:
        """Return whether the clock has advanced and stopped, as configured; if it has not, stop it."""
        current_clock = await self._read_clock(clock.handle.id)
        if current_clock is None or not current_clock.skips_waits:
            self._caused_events[clock.handle.id] += 1
            return True
        await self._set(current_clock, TimeSkippingConfig(enabled=False))
        return False

    async def skip_all_waits(self) -> None:
        """Let all clocks skip timers and delays from now on, also those of later children."""
        for clock in await self.read():
            await self._set(clock, TimeSkippingConfig(enabled=True, max_session_skip_count=MAX_SKIPS))

    async def _set(self, clock: WorkflowClock, config: TimeSkippingConfig) -> bool:
        """Configure time skipping; return False if the workflow has ended."""
        request = UpdateWorkflowExecutionOptionsRequest(
            namespace=self._client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=clock.handle.id),
            workflow_execution_options=WorkflowExecutionOptions(time_skipping_config=config),
            update_mask=FieldMask(paths=["time_skipping_config"]),
        )
        try:
            await self._client.workflow_service.update_workflow_execution_options(request)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return False
        self._caused_events[clock.handle.id] += 1
        return True


class TimeSkippingInterceptor(Interceptor):
    """Starts workflows whose clocks skip timers and delays if ``skips_waits``, and otherwise advance only by
    ``Clocks``.
    """

    def __init__(self, *, skips_waits: bool) -> None:
        self._config = TimeSkippingConfig(enabled=skips_waits, max_session_skip_count=MAX_SKIPS)

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:  # noqa: A002 - the base class names it so
        """See temporalio.client.Interceptor."""
        return _StartInterceptor(next, self._config)


class _StartInterceptor(OutboundInterceptor):
    def __init__(self, next_: OutboundInterceptor, config: TimeSkippingConfig) -> None:
        super().__init__(next_)
        self._config = config

    async def start_workflow(self, input: StartWorkflowInput) -> _Handle:  # noqa: A002
        input.time_skipping_config = self._config
        return await super().start_workflow(input)
