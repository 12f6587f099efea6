"""Drives the machine of one frame: feeds it facts and performs its commands, in this process.

Every turn feeds all facts since the last one, stops first, and then writes a segment if one is due. Between turns the
frame waits for facts. It ends when the machine ends, or when it is interrupted: then nothing new starts, calls in
progress end or are cancelled, and the state is stored for the next attempt.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import msgspec
from temporalio import activity

from noetl_temporal.calls.call_log import now
from noetl_temporal.calls.interruptions import FINISH_SECONDS
from noetl_temporal.calls.tool_outcome import failed_outcome
from noetl_temporal.frames.call import FrameCall, FrameContext
from noetl_temporal.frames.segment_writer import SEGMENT_SECONDS, SegmentWriter
from noetl_temporal.frames.segments import InFlight
from noetl_temporal.machine.call import AttemptStatus, ToolReport
from noetl_temporal.machine.commands import (
    AnswerWait,
    CallTool,
    Cancel,
    CloseWait,
    Command,
    Emit,
    Finish,
    FrameLimits,
    LoadValue,
    OpenWait,
    PauseChildren,
    RunChunk,
    StartTimer,
    StoreValues,
)
from noetl_temporal.machine.errors import ProtocolError
from noetl_temporal.machine.facts import (
    CancelRequested,
    ChunkReport,
    Continued,
    Fact,
    IdleRequested,
    Restored,
    ReturnRequested,
    Started,
    TimerFired,
    ToolFinished,
    ValueLoaded,
    ValuesStored,
)
from noetl_temporal.machine.loops.loop import LoopMachine
from noetl_temporal.payloads.stored_values import load_json, store_values
from noetl_temporal.payloads.value_store import retry_until_done

__all__ = ["FrameHost"]

STORE_SECONDS = 5.0
"""How long an interrupted frame waits for the payload store."""


class FrameHost:
    """Hosts the machine of a frame.

    ``make_writer`` receives a function that wakes the host once a segment is stored.
    """

    def __init__(
        self, machine: LoopMachine, context: FrameContext, make_writer: Callable[[Callable[[], None]], SegmentWriter]
    ) -> None:
        self.segments = make_writer(self._wake)
        self._machine = machine
        self._context = context
        self._limits: FrameLimits | None = machine.input.frame
        self._inbox: deque[Fact] = deque()
        self._has_facts = asyncio.Event()
        self._calls: dict[str, FrameCall] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._is_stopping = False
        self._finish: Finish | None = None

    async def run(self, calls: list[InFlight] | None) -> ChunkReport:
        """Drive the machine to its end. ``calls`` were in flight in an earlier attempt, None in the first."""
        background = [asyncio.create_task(work) for work in (self._tick(), self._finish_when_worker_stops())]
        try:
            self._feed(Started(now()) if calls is None else Restored(now()))
            for in_flight in calls or ():
                self._start(FrameCall(self._context, in_flight))
            while True:
                self._process_inbox()
                if self._finish is not None and self._machine.report is not None:
                    return self._machine.report
                await self._has_facts.wait()
                self._has_facts.clear()
        finally:
            for task in background:
                task.cancel()

    def cancel(self) -> None:
        """Stop the loop."""
        self._inbox.appendleft(CancelRequested(now()))
        self._wake()

    async def interrupt(self, reason: AttemptStatus) -> None:
        """End or interrupt what is in flight, and store the progress of the frame. Raises TimeoutError if it cannot."""
        if self._finish is None:
            self._feed(IdleRequested(now()))
            for call in self._calls.values():
                call.stop(reason)
            running = [self._tasks[id_] for id_ in self._calls if id_ in self._tasks]
            if running:
                await asyncio.wait(running, timeout=2 * FINISH_SECONDS)
                await asyncio.sleep(0)  # their callbacks run afterwards
            while self._inbox and self._finish is None:
                self._feed(self._inbox.popleft())
        async with asyncio.timeout(STORE_SECONDS):
            await self.segments.write_last(self._in_flight(), self._machine.report)

    def close(self) -> None:
        """Cancel everything that is still running."""
        self.segments.close()
        for task in self._tasks.values():
            task.cancel()

    def _wake(self) -> None:
        self._has_facts.set()

    # ---- in the background -----------------------------------------------------------------------------------------

    async def _tick(self) -> None:
        """Check regularly whether a segment is due or the frame has timed out."""
        while True:
            await asyncio.sleep(SEGMENT_SECONDS / 2)
            self._wake()

    async def _finish_when_worker_stops(self) -> None:
        """When the worker stops, let the started items end, and start no others."""
        await activity.wait_for_worker_shutdown()
        self._is_stopping = True
        self._wake()

    # ---- a turn -----------------------------------------------------------------------------------------------------

    def _process_inbox(self) -> None:
        while self._inbox and self._finish is None:
            self._feed(self._inbox.popleft())
        if self._is_full():
            self._feed(ReturnRequested(now()))
        if self._finish is None:  # the segment of a machine that has ended needs its report: it is the last one
            self.segments.write_if_due(self._in_flight())
            self._idle_or_continue()

    def _idle_or_continue(self) -> None:
        machine = self._machine
        if self.segments.is_behind:
            if not machine.state.is_idling:
                self._feed(IdleRequested(now()))
        elif machine.state.is_idling:
            self._feed(Continued(now()))
        while machine.has_work and not machine.state.is_idling and self._finish is None:
            self._feed(Continued(now()))

    def _is_full(self) -> bool:
        """Whether the frame begins no further item."""
        state, limits = self._machine.state, self._limits
        if self._finish is not None or state.is_closed or state.stop is not None:
            return False
        if limits is None or self._is_stopping:
            return self._is_stopping
        return (
            now() - state.started >= limits.max_seconds * 1000
            or state.result_sizes.bytes + state.stored_bytes >= limits.max_bytes
        )

    def _in_flight(self) -> list[InFlight]:
        return [call.in_flight for call in self._calls.values()]

    def _feed(self, fact: Fact) -> None:
        """Feed one fact and do what follows from it."""
        if isinstance(fact, ToolFinished):
            call = self._calls.pop(fact.call_id)
            if call.report is not None:
                self.segments.add_call(call.call, call.scheduled, fact.at, call.report)
        for command in self._machine.feed(fact):
            self._perform(command)

    def _perform(self, command: Command) -> None:
        match command:
            case Emit():
                self.segments.add_event(command.event)
            case CallTool():
                self._start(FrameCall(self._context, InFlight(command.call, now())))
            case StartTimer():
                self._start_timer(command)
            case Cancel():
                self._cancel(command.id)
            case StoreValues() | LoadValue():
                self._start_value_task(command)
            case Finish():
                self._finish = command
            case RunChunk():
                raise ProtocolError(f"{command.chunk_id}: a frame cannot run a loop")
            case OpenWait() | CloseWait() | AnswerWait() | PauseChildren():
                raise ProtocolError("no signal reaches a frame, so nothing in it can wait")

    # ---- calls and timers -------------------------------------------------------------------------------------------

    def _start(self, call: FrameCall) -> None:
        id_ = call.call.id
        self._calls[id_] = call
        task = self._tasks[id_] = call.start()
        task.add_done_callback(lambda done: self._on_call_end(call, done))

    def _on_call_end(self, call: FrameCall, task: asyncio.Task[None]) -> None:
        id_ = call.call.id
        del self._tasks[id_]
        if call.must_be_repeated:
            return
        if call.report is not None:
            self._add_fact(ToolFinished(now(), id_, call.report, call.cancelled))
        elif task.cancelled():  # before it had begun
            outcome = failed_outcome("cancelled", "the call was cancelled")
            self._add_fact(ToolFinished(now(), id_, ToolReport(outcome, is_decided=False), cancelled=True))
        else:
            outcome = failed_outcome("internal", f"{type(task.exception()).__name__}: {task.exception()}")
            self._add_fact(ToolFinished(now(), id_, ToolReport(outcome, is_decided=False)))

    def _start_timer(self, command: StartTimer) -> None:
        task = self._tasks[command.timer_id] = asyncio.create_task(asyncio.sleep(command.seconds))
        task.add_done_callback(lambda done: self._on_timer_end(command.timer_id, done))

    def _on_timer_end(self, timer_id: str, task: asyncio.Task[None]) -> None:
        del self._tasks[timer_id]
        if not task.cancelled():
            self._add_fact(TimerFired(now(), timer_id))

    def _start_value_task(self, command: StoreValues | LoadValue) -> None:
        task = self._tasks[command.id] = asyncio.create_task(self._store_or_load(command))
        task.add_done_callback(lambda done: self._on_value_task_end(command.id, done))

    def _on_value_task_end(self, id_: str, task: asyncio.Task[None]) -> None:
        """Remove an ended task, unless the load was cancelled and started again."""
        if self._tasks.get(id_) is task:
            del self._tasks[id_]

    async def _store_or_load(self, command: StoreValues | LoadValue) -> None:
        values = self._context.own_values
        match command:
            case StoreValues():
                try:
                    references = await retry_until_done(
                        "results cannot be stored", lambda: store_values(values, command.values)
                    )
                except LookupError as error:
                    self._add_fact(ValuesStored(now(), command.id, error=f"values cannot be stored: {error}"))
                else:
                    self._add_fact(ValuesStored(now(), command.id, tuple(references)))
            case LoadValue():
                try:
                    text = await retry_until_done(
                        "a stored value cannot be read", lambda: load_json(values, command.stored)
                    )
                except LookupError as error:
                    self._add_fact(ValueLoaded(now(), command.id, error=f"a stored value cannot be read: {error}"))
                else:
                    self._add_fact(ValueLoaded(now(), command.id, msgspec.json.decode(text)))

    def _cancel(self, id_: str) -> None:
        if id_ in self._calls:
            self._calls[id_].stop("cancelled")
        elif id_ in self._tasks:
            self._tasks[id_].cancel()

    def _add_fact(self, fact: Fact) -> None:
        self._inbox.append(fact)
        self._wake()
