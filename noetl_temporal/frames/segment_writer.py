"""Writes the segments of a frame one after the other, and reports them in heartbeats.

A segment is a snapshot between two facts, so its entries, results and state agree. It is stored concurrently, with
retries. If the next segment is due before one is stored, the frame *is behind*: its host starts no calls, so that at
most the calls of two segments can be lost with the worker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from itertools import islice

import msgspec
from temporalio import activity

from noetl_temporal.calls.call_log import worker_name
from noetl_temporal.frames.heartbeat import FrameHeartbeat
from noetl_temporal.frames.segments import InFlight, Segment, pack_segment
from noetl_temporal.machine.call import ToolCall, ToolReport
from noetl_temporal.machine.domain import DomainEvent
from noetl_temporal.machine.facts import ChunkReport
from noetl_temporal.machine.loops.loop import LoopMachine
from noetl_temporal.machine.state import state_snapshot
from noetl_temporal.messages.frame import FrameDetails
from noetl_temporal.payloads.payload_store import SEGMENT_ENCODING
from noetl_temporal.payloads.value_store import ValueStore, retry_until_done

__all__ = ["SegmentWriter"]

SEGMENT_SECONDS = 1.0
SEGMENT_ENTRIES = 2_000
"""About 400 items of one task. More segments would not be safer: a heartbeat waits up to two seconds for the next."""

SEGMENT_BYTES = 4_000_000
"""Bytes of the entries of a segment, before compression."""


class SegmentWriter:
    """Writes the segments of one attempt of a frame.

    ``on_stored`` is called when a segment has been stored; ``heartbeat`` reports it.
    """

    def __init__(
        self, machine: LoopMachine, values: ValueStore, heartbeat: FrameHeartbeat, on_stored: Callable[[], None]
    ) -> None:
        state = machine.state
        self._heartbeat = heartbeat
        self._machine = machine
        self._values = values
        self._on_stored = on_stored
        self._attempt = activity.info().attempt
        self._entries: list[msgspec.Raw] = []
        self._bytes = 0
        self._stored_counts = (len(state.results), len(state.assigns))
        self._written_at = self._now()
        self._storing: asyncio.Task[str] | None = None
        self._lists_lost_calls = heartbeat.details.head is not None

    # ---- events and calls of the frame ------------------------------------------------------------------------------

    def add_event(self, event: DomainEvent) -> None:
        """Add an event of the machine."""
        self._add({"event": event})

    def add_call(self, call: ToolCall, scheduled: int, closed: int, report: ToolReport) -> None:
        """Add a call that ended; times in milliseconds since the epoch."""
        self._add({"call": call, "scheduled": scheduled, "closed": closed, "worker": worker_name(), "report": report})

    def _add(self, entry: dict[str, object]) -> None:
        text = msgspec.json.encode(entry)
        self._entries.append(msgspec.Raw(text))
        self._bytes += len(text)

    # ---- segments ---------------------------------------------------------------------------------------------------

    @property
    def is_due(self) -> bool:
        """Whether to write a segment: it is full, or it is time. The first of an attempt may be empty, as it lists lost
        calls.
        """
        if len(self._entries) >= SEGMENT_ENTRIES or self._bytes >= SEGMENT_BYTES:
            return True
        return (self._lists_lost_calls or bool(self._entries)) and self._now() - self._written_at >= SEGMENT_SECONDS

    @property
    def is_behind(self) -> bool:
        """A segment is due while the one before is not stored yet."""
        return self._storing is not None and self.is_due

    def write_if_due(self, calls: Iterable[InFlight]) -> None:
        """Write a segment with the events since the last one, if one is due and none is being stored."""
        if self.is_due and self._storing is None:
            attempt = self._attempt if self._entries else self._heartbeat.details.attempt
            self._storing = asyncio.create_task(self._store(self._segment(calls), self._progress(attempt)))

    async def write_last(self, calls: Iterable[InFlight] = (), report: ChunkReport | None = None) -> str:
        """Store the last segment, with retries, and with the ``report`` if the frame has ended. Returns its key.

        If interrupted, it continues in the background, because the segment has the only copy of its entries.
        """
        while self._storing is not None:
            await asyncio.shield(self._storing)
        self._storing = asyncio.create_task(self._store(self._segment(calls, report), self._progress(self._attempt)))
        return await asyncio.shield(self._storing)

    def close(self) -> None:
        """Stop storing."""
        if self._storing is not None:
            self._storing.cancel()

    def _segment(self, calls: Iterable[InFlight], report: ChunkReport | None = None) -> Segment:
        state = self._machine.state
        results, assigns = self._stored_counts
        small_state = msgspec.structs.replace(state, results={}, assigns={})
        segment = Segment(
            previous_key=self._heartbeat.details.head,
            entries=self._entries,
            results=dict(islice(state.results.items(), results, None)),
            assigns=dict(islice(state.assigns.items(), assigns, None)),
            state=state_snapshot(small_state),
            calls=list(calls),
            report=report,
        )
        self._stored_counts = (len(state.results), len(state.assigns))
        self._entries, self._bytes, self._written_at, self._lists_lost_calls = [], 0, self._now(), False
        return segment

    async def _store(self, segment: Segment, progress: FrameDetails) -> str:
        data = await asyncio.to_thread(pack_segment, segment)
        key = await retry_until_done(
            "the progress of a frame cannot be stored", lambda: self._values.put(data, SEGMENT_ENCODING)
        )
        self._heartbeat.details = msgspec.structs.replace(progress, head=key)
        self._storing = None
        self._heartbeat.beat()
        self._on_stored()
        return key

    def _progress(self, attempt: int) -> FrameDetails:
        state = self._machine.state
        running = [run.index - self._machine.input.first for run in state.runs.values()]
        return FrameDetails(
            attempt=attempt,
            ended=state.next_position - len(running),
            ended_prefix=min(running, default=state.next_position),
            total=len(self._machine.input.items),
        )

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
