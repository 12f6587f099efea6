"""One tool call of a frame, with all its attempts and the delays between them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from temporalio.exceptions import ApplicationError

from noetl_activities.credentials import Credentials, CredentialSource
from noetl_activities.sinks import Sinks
from noetl_activities.tool import Tool
from noetl_temporal.calls.call_log import CallLog, now
from noetl_temporal.calls.run_tool import Attempt
from noetl_temporal.calls.tool_outcome import failed_outcome
from noetl_temporal.frames.segments import InFlight
from noetl_temporal.machine.call import AttemptRecord, AttemptStatus, ToolCall, ToolReport
from noetl_temporal.payloads.value_store import ValueStore

__all__ = ["FrameCall", "FrameContext"]


class _FrameCallLog(CallLog):
    """The attempts of one call of a frame.

    ``reason`` is why the call is interrupted.
    """

    def __init__(self, records: Sequence[AttemptRecord]) -> None:
        super().__init__(records)
        self.reason: AttemptStatus | None = None

    @property
    def interruption_reason(self) -> AttemptStatus | None:
        return self.reason


class _NonStoringValues(ValueStore):
    """Stores nothing."""

    async def store(self, value: Any) -> None:
        del value


class FrameContext:
    """What the calls of a frame share; ``sinks`` are shared with other frames. ``is_hopeless`` if workers were lost
    repeatedly while this frame ran: then no further call is made. ``own_values`` stores the values of the frame itself,
    ``call_values`` stores nothing, as the reports of calls are in the segments of the frame.
    """

    def __init__(
        self,
        tools: Mapping[str, Tool],
        source: CredentialSource,
        values: ValueStore,
        sinks: Sinks,
        *,
        is_hopeless: bool = False,
    ) -> None:
        self.tools = tools
        self.source = source
        self.own_values = values
        self.call_values = _NonStoringValues(values.converter, values.limit)
        self.sinks = sinks
        self.is_hopeless = is_hopeless


class FrameCall:
    """A call of a frame, with all its attempts.

    ``scheduled`` in milliseconds since the epoch. ``report`` is set once it has ended, ``cancelled`` if
    a requested cancel interrupted it.
    """

    def __init__(self, context: FrameContext, in_flight: InFlight) -> None:
        self.call: ToolCall = in_flight.call
        self.scheduled = in_flight.scheduled
        self.cancelled = False
        self.report: ToolReport | None = None
        self._context = context
        self._log = _FrameCallLog(in_flight.attempts)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> asyncio.Task[None]:
        """Start the call. The task ends without a report if the call was interrupted and must be repeated."""
        self._task = asyncio.create_task(self._run())
        return self._task

    def stop(self, reason: AttemptStatus) -> None:
        """Interrupt the call; if its tool has returned, it still completes its sinks (semantics.md 19a)."""
        if self._log.reason is None and self._task is not None:
            self._log.reason = reason
            self._task.cancel()

    @property
    def in_flight(self) -> InFlight:
        """The call as the next attempt of the frame must continue it. If the machine does not have its report yet, its
        last attempt counts as lost, because the report is lost with this attempt of the frame.
        """
        records = self._log.records
        if records and records[-1].status in ("ok", "error") and records[-1].do != "retry":
            last = records[-1]
            records = (*records[:-1], AttemptRecord(last.number, last.started, "lost", worker=last.worker))
        return InFlight(self.call, self.scheduled, records)

    @property
    def must_be_repeated(self) -> bool:
        """Whether the call was interrupted for another reason than a cancel."""
        return self.report is None and self._log.reason not in (None, "cancelled")

    async def _run(self) -> None:
        try:
            self.report = await self._attempts()
        except asyncio.CancelledError:
            if self._log.reason != "cancelled":
                raise
            self.report, self.cancelled = self._cancelled_report(), True

    async def _attempts(self) -> ToolReport:
        await asyncio.sleep(self._remaining_delay())
        while True:
            tool_called = asyncio.Event()
            self._log.begin_attempt()
            try:
                return await self._attempt(tool_called)
            except ApplicationError as retry:
                delay = retry.next_retry_delay.total_seconds() if retry.next_retry_delay else 0.0
                if self._log.reason is not None:  # the interruption came while the sinks finished
                    raise asyncio.CancelledError from retry
            except asyncio.CancelledError:
                self._log.end_attempt(status=self._log.reason or "lost", is_called=tool_called.is_set())
                raise
            await asyncio.sleep(delay)

    async def _attempt(self, tool_called: asyncio.Event) -> ToolReport:
        context = self._context
        tool = context.tools.get(self.call.kind)
        if context.is_hopeless:
            return self._refusal_report("worker_lost", "workers were lost repeatedly while running this frame")
        if tool is None:
            return self._refusal_report("config", f"this worker runs frames and has no tool {self.call.kind!r}")
        credentials = Credentials(context.source, self.call.secrets_key)
        return await Attempt(
            tool, self.call, credentials, self._log, context.call_values, tool_called, sink_writer=context.sinks
        ).run()

    def _refusal_report(self, kind: str, message: str) -> ToolReport:
        outcome = failed_outcome(kind, message)
        self._log.end_attempt(status="error", error=outcome["error"], is_called=False)
        return ToolReport(outcome, attempts=self._log.records, counts=self._log.counts, is_decided=False)

    def _remaining_delay(self) -> float:
        """Return the rest of the delay before the next attempt, if an earlier attempt of the frame ended during it."""
        last = self._log.records[-1:]
        if not last or last[0].ended is None or last[0].delay is None:
            return 0.0
        return max(0.0, (last[0].ended - now()) / 1000 + last[0].delay)

    def _cancelled_report(self) -> ToolReport:
        outcome = failed_outcome("cancelled", "the call was cancelled")
        return ToolReport(outcome, attempts=self._log.records, counts=self._log.counts)
