"""One tool call of a frame, with all its attempts: delays between them are slept here."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from temporalio.exceptions import ApplicationError

from noetl_activities.credentials import Credentials, CredentialSource
from noetl_activities.sinks import Sinks
from noetl_activities.tool import Tool
from noetl_temporal.call_log import CallLog, now
from noetl_temporal.frames.segments import InFlight
from noetl_temporal.machine.call import AttemptRecord, AttemptStatus, ToolCall, ToolReport
from noetl_temporal.run_tool import Attempt
from noetl_temporal.tool_outcome import refusal
from noetl_temporal.value_store import ValueStore

__all__ = ["FrameCall", "FrameContext"]


class _Log(CallLog):
    """The attempts of one call of a frame.

    ``reason`` is why the call is interrupted.
    """

    def __init__(self, records: Sequence[AttemptRecord]) -> None:
        super().__init__(records)
        self.reason: AttemptStatus | None = None

    @property
    def stop_reason(self) -> AttemptStatus | None:
        return self.reason


class _NotStored(ValueStore):
    """Stores nothing, as the reports of a frame are stored in its segments."""

    async def store(self, value: Any) -> None:
        del value


class FrameContext:
    """What the calls of a frame share; ``sinks`` also with those of other frames. ``is_hopeless`` when workers died
    again and again while this frame ran: then no call is made any more. ``store`` takes what the frame itself keeps,
    ``values`` is for its calls.
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
        self.store = values
        self.values = _NotStored(values.converter, values.limit)
        self.sinks = sinks
        self.is_hopeless = is_hopeless


class FrameCall:
    """A call of a frame, with all its attempts.

    ``scheduled`` in milliseconds since the epoch. ``report`` is there once it has ended, ``cancelled`` if it was cut
    off because it was asked to end.
    """

    def __init__(self, around: FrameContext, begun: InFlight) -> None:
        self.call: ToolCall = begun.call
        self.scheduled = begun.scheduled
        self.cancelled = False
        self.report: ToolReport | None = None
        self._around = around
        self._log = _Log(begun.attempts)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> asyncio.Task[None]:
        """Make the call. The task ends without a report where the call was interrupted and has to be made again."""
        self._task = asyncio.create_task(self._run())
        return self._task

    def stop(self, reason: AttemptStatus) -> None:
        """Ask the call to end: once its tool has answered it still completes its sinks (semantics.md 19a)."""
        if self._log.reason is None and self._task is not None:
            self._log.reason = reason
            self._task.cancel()

    @property
    def in_flight(self) -> InFlight:
        """The call as the next attempt of the frame must continue it. If the machine does not have its report yet, its
        last attempt counts as lost, because the report is lost with this attempt of the frame.
        """
        records = self._log.latest
        if records and records[-1].status in ("ok", "error") and records[-1].do != "retry":
            last = records[-1]
            records = (*records[:-1], AttemptRecord(last.number, last.started, "lost", worker=last.worker))
        return InFlight(self.call, self.scheduled, records)

    @property
    def is_to_be_made_again(self) -> bool:
        """It was interrupted for a reason that is not its own."""
        return self.report is None and self._log.reason not in (None, "cancelled")

    async def _run(self) -> None:
        try:
            self.report = await self._attempts()
        except asyncio.CancelledError:
            if self._log.reason != "cancelled":
                raise
            self.report, self.cancelled = self._cancelled(), True

    async def _attempts(self) -> ToolReport:
        await asyncio.sleep(self._remaining_delay())
        while True:
            is_called = asyncio.Event()
            self._log.begin()
            try:
                return await self._attempt(is_called)
            except ApplicationError as again:
                delay = again.next_retry_delay.total_seconds() if again.next_retry_delay else 0.0
                if self._log.reason is not None:  # the interruption was spent on letting the sinks finish
                    raise asyncio.CancelledError from again
            except asyncio.CancelledError:
                self._log.end(status=self._log.reason or "lost", is_called=is_called.is_set())
                raise
            await asyncio.sleep(delay)

    async def _attempt(self, is_called: asyncio.Event) -> ToolReport:
        around = self._around
        tool = around.tools.get(self.call.kind)
        if around.is_hopeless:
            return self._refused("worker_lost", "workers were lost repeatedly while running this frame")
        if tool is None:
            return self._refused("config", f"this worker runs frames and has no tool {self.call.kind!r}")
        credentials = Credentials(around.source, self.call.secrets_key)
        return await Attempt(
            tool, self.call, credentials, self._log, around.values, is_called, performer=around.sinks
        ).run()

    def _refused(self, kind: str, message: str) -> ToolReport:
        outcome = refusal(kind, message)
        self._log.end(status="error", error=outcome["error"], is_called=False)
        return ToolReport(outcome, attempts=self._log.latest, counts=self._log.counts, is_decided=False)

    def _remaining_delay(self) -> float:
        """Return seconds of the delay in which an earlier attempt of the frame left the call."""
        last = self._log.latest[-1:]
        if not last or last[0].ended is None or last[0].delay is None:
            return 0.0
        return max(0.0, (last[0].ended - now()) / 1000 + last[0].delay)

    def _cancelled(self) -> ToolReport:
        outcome = refusal("cancelled", "the call was cancelled")
        return ToolReport(outcome, attempts=self._log.latest, counts=self._log.counts)
