"""The activity that runs a frame: it restores the state of an earlier attempt, drives the host, and reports.

When a frame is cancelled, it cancels its calls and continues until its machine has ended. When it is interrupted for
another reason (the grace period of its worker is over, or a user paused or reset the activity), it stores its progress,
and Temporal runs it again. If the payload store has lost a value that the frame needs, the frame fails, and so does its
loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec
from msgspec.structs import replace
from temporalio import activity
from temporalio.exceptions import ApplicationError

from noetl_activities.credentials import CredentialSource
from noetl_activities.sinks import Sinks
from noetl_activities.sinks.batches import SinkBatches
from noetl_activities.tool import Tool
from noetl_temporal.calls.interruptions import interruption_error, interruption_reason
from noetl_temporal.calls.run_tool import MAX_LOST
from noetl_temporal.frames.call import FrameContext
from noetl_temporal.frames.heartbeat import FrameHeartbeat
from noetl_temporal.frames.host import FrameHost
from noetl_temporal.frames.segment_writer import SegmentWriter
from noetl_temporal.frames.segments import read_progress
from noetl_temporal.machine.call import AttemptStatus
from noetl_temporal.machine.loops.loop import LoopMachine
from noetl_temporal.messages.frame import FRAME_ACTIVITY, FrameEnd, FrameInput
from noetl_temporal.payloads.codec import UnreadValue
from noetl_temporal.payloads.stored_values import GONE
from noetl_temporal.payloads.value_store import ValueStore, retry_until_done
from noetl_temporal.workflows.loop_run import with_items

__all__ = ["frame_activity"]


def frame_activity(tools: Mapping[str, Tool], source: CredentialSource, values: ValueStore) -> Callable[..., Any]:
    """Return the activity ``noetl.frame``, which calls these ``tools``. ``values`` stores its segments. All frames of a
    worker share the batches of their sinks.
    """
    sinks = SinkBatches()

    @activity.defn(name=FRAME_ACTIVITY)
    async def run(frame_input: FrameInput) -> FrameEnd:
        frame = _Frame(tools, source, values, sinks)
        with frame.heartbeat.heartbeating():
            return await _run_to_end(frame, frame_input)

    return run


async def _run_to_end(frame: _Frame, frame_input: FrameInput | UnreadValue) -> FrameEnd:
    """Run the frame to its end, ignoring further cancels, and return its end."""
    running = asyncio.create_task(frame.run(frame_input))
    try:
        while True:
            try:
                return await asyncio.shield(running)
            except asyncio.CancelledError:
                if running.done() and not running.cancelled():
                    return running.result()
                reason = interruption_reason()
                if reason is None or running.cancelled():  # the process is being torn down
                    raise
            if reason == "cancelled":
                frame.cancel()
                continue
            running.cancel()
            await asyncio.wait([running])
            await frame.interrupt(reason)
    finally:
        running.cancel()
        frame.close()


class _Frame:
    """One attempt of a frame."""

    def __init__(self, tools: Mapping[str, Tool], source: CredentialSource, values: ValueStore, sinks: Sinks) -> None:
        self.heartbeat = FrameHeartbeat()
        self._values = values
        self._context = FrameContext(
            tools, source, values, sinks, is_hopeless=_idle_attempts(self.heartbeat) > MAX_LOST
        )
        self._host: FrameHost | None = None
        self._is_cancelled = False

    async def run(self, frame_input: FrameInput | UnreadValue) -> FrameEnd:
        """Run the frame to its end."""
        head, values = self.heartbeat.details.head, self._values
        with _fail_if_missing("input"):
            readable_input = await self._read_input(frame_input)
        with _fail_if_missing("progress"):
            progress = None if head is None else await read_progress(values, head)
        if progress is not None and progress.report is not None:
            return await self._store_end(FrameEnd(progress.report, head or ""))
        machine = LoopMachine(
            readable_input.input, None if progress is None else progress.state, limit=readable_input.limit
        )
        host = FrameHost(machine, self._context, lambda wake: SegmentWriter(machine, values, self.heartbeat, wake))
        self._host = host
        if self._is_cancelled:
            host.cancel()
        report = await host.run(None if progress is None else progress.calls)
        return await self._store_end(FrameEnd(report, await host.segments.write_last(report=report)))

    async def _read_input(self, frame_input: FrameInput | UnreadValue) -> FrameInput:
        """Return the input, read from the payload store however long that takes, with its stored items.

        Raises LookupError when the store no longer has it.
        """
        if not isinstance(frame_input, FrameInput):
            unread = frame_input
            frame_input = await retry_until_done(
                "the frame cannot be read", lambda: self._values.read(unread, FrameInput)
            )
        chunk_input = frame_input.input
        if chunk_input.stored_items is None:
            return frame_input
        part, keys = (
            chunk_input.stored_items,
            [chunk_input.stored_items.key, *([chunk_input.scope_key] if chunk_input.scope_key else ())],
        )
        texts = await retry_until_done("the frame's items cannot be read", lambda: self._values.get_all(keys))
        items = msgspec.json.decode(texts[part.key])
        scope = msgspec.json.decode(texts[chunk_input.scope_key]) if chunk_input.scope_key else chunk_input.scope
        return replace(frame_input, input=with_items(chunk_input, items, scope))

    async def _store_end(self, end: FrameEnd) -> FrameEnd:
        """Store the end where Temporal reads it, and return it."""
        await retry_until_done("the report of a frame cannot be stored", lambda: self._values.store(end))
        return end

    def cancel(self) -> None:
        """Stop the loop."""
        self._is_cancelled = True
        if self._host is not None:
            self._host.cancel()

    async def interrupt(self, reason: AttemptStatus) -> None:
        """Store the progress of the frame. Raises the error that makes Temporal run it again."""
        try:
            if self._host is not None:
                await self._host.interrupt(reason)
        except TimeoutError:
            activity.logger.warning("a frame was interrupted while the payload store was unavailable")
        raise interruption_error(reason)

    def close(self) -> None:
        """Cancel everything that is still running."""
        if self._host is not None:
            self._host.close()


@contextmanager
def _fail_if_missing(description: str) -> Generator[None]:
    """Fail the frame permanently if a stored value is missing: later attempts would not find it. Its loop is lost."""
    try:
        yield
    except LookupError as error:
        message = f"the frame's {description} cannot be read: {error}. Fix the cause and run the playbook again."
        raise ApplicationError(message, type=GONE, non_retryable=True) from error


def _idle_attempts(heartbeat: FrameHeartbeat) -> int:
    """Return the number of lost attempts since the last one that made progress. A reset counts them from 1 again."""
    return max(0, activity.info().attempt - 1 - heartbeat.details.attempt)
