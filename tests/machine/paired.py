"""The machines of a playbook and of its only chunk, with messages between them that may be late."""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from noetl_compiler import compile_or_raise
from noetl_temporal.event_ids import EPOCH_MS
from noetl_temporal.machine.call import ToolCall
from noetl_temporal.machine.commands import (
    AnswerWait,
    CallTool,
    Cancel,
    CloseWait,
    Command,
    Emit,
    Finish,
    OpenWait,
    PauseChildren,
    RunChunk,
    StartTimer,
)
from noetl_temporal.machine.control import find_held_run, find_held_runs
from noetl_temporal.machine.domain import DomainEvent
from noetl_temporal.machine.facts import (
    Answered,
    CancelRequested,
    ChunkFinished,
    Continued,
    Fact,
    PauseRequested,
    Restored,
    RetryRequested,
    Signalled,
    SkipRequested,
    Started,
    TimerFired,
    ToolFinished,
    UnpauseRequested,
    WaitClosed,
    WaitOpened,
)
from noetl_temporal.machine.loops.cursor import loop_machine
from noetl_temporal.machine.loops.loop import LoopMachine
from noetl_temporal.machine.playbook import PlaybookMachine
from noetl_temporal.machine.waits.wait import Signal

from .driver import report_of
from .playbooks import playbook

__all__ = ["Pair"]


class Pair:
    """The machines of a playbook and its chunk. Messages are queued until delivered; facts are fed one at a time."""

    def __init__(self, steps: str, head: str = "") -> None:
        self.graph = compile_or_raise(playbook(steps, head))
        self.parent = PlaybookMachine(self.graph, execution_id=7)
        self.child: LoopMachine | None = None
        self.input: Any = None
        self.up: deque[OpenWait | CloseWait] = deque()
        self.down: deque[AnswerWait | PauseChildren] = deque()
        self.calls: dict[str, ToolCall] = {}
        self.parent_timers: dict[str, float] = {}
        self.emitted_events: list[DomainEvent] = []
        self.timers: dict[str, float] = {}
        self.now, self.requests = EPOCH_MS, 0
        self.events: list[str] = []
        self.finish: Finish | None = None
        self.feed(Started, {})

    def feed(self, event: type[Fact], *args: Any) -> None:
        self.now += 1000
        self._perform(self.parent.feed(event(self.now, *args)))
        while self.parent.has_work and self.finish is None:
            self._perform(self.parent.feed(Continued(self.now)))

    def feed_child(self, event: type[Fact], *args: Any) -> None:
        assert self.child is not None
        self.now += 1000
        self._perform(self.child.feed(event(self.now, *args)), chunk=True)
        while self.child.has_work:
            self._perform(self.child.feed(Continued(self.now)), chunk=True)

    def _perform(self, commands: list[Command], *, chunk: bool = False) -> None:
        for command in commands:
            match command:
                case Emit(event):
                    self.events.append(event.type)
                    self.emitted_events.append(event)
                case CallTool(call) if chunk:
                    self.calls[call.id] = call
                case StartTimer() | Cancel():
                    self._set_timer(command, self.timers if chunk else self.parent_timers)
                case RunChunk(chunk_id, given_):
                    self.chunk_id, self.input = chunk_id, given_
                    self.child = loop_machine(given_)
                    self.feed_child(Started)
                case OpenWait() | CloseWait():
                    self.up.append(command)
                case AnswerWait() | PauseChildren() if not chunk:
                    self.down.append(command)
                case Finish():
                    if not chunk:
                        self.finish = command
                case _:
                    pass

    def _set_timer(self, command: StartTimer | Cancel, timers: dict[str, float]) -> None:
        match command:
            case StartTimer(timer_id, seconds):
                timers[timer_id] = seconds
            case Cancel(id_):
                timers.pop(id_, None)

    def held(self, step: str = "") -> str:
        """Return the id of the held run."""
        return find_held_run(self.graph, self.parent.state, step, []).run

    def retry(self, step: str = "") -> None:
        self.requests += 1
        self.feed(RetryRequested, self.requests, (self.held(step),), "ann")

    def skip(self, step: str, data: Any = None) -> None:
        self.requests += 1
        self.feed(SkipRequested, self.requests, (self.held(step),), data, "ann")

    def retry_all(self, step: str = "") -> None:
        self.requests += 1
        runs = [held.run for held in find_held_runs(self.graph, self.parent.state, step, [])]
        self.feed(RetryRequested, self.requests, tuple(runs), "ann")

    def pause(self) -> None:
        self.requests += 1
        self.feed(PauseRequested, self.requests, "ann")

    def resume(self) -> None:
        self.requests += 1
        self.feed(UnpauseRequested, self.requests, "ann")

    def cancel(self) -> None:
        """Cancel the playbook and its chunk."""
        self.feed(CancelRequested)
        if self.child is not None and self.child.report is None:
            self.feed_child(CancelRequested)

    def ends(self, step: str, report: Any = None, iteration: int | None = None) -> None:
        """End the first call of the step, or of this iteration of it."""
        calls = self.calls.values()
        call = next(call for call in calls if call.step == step and iteration in (None, call.iteration))
        del self.calls[call.id]
        self.feed_child(ToolFinished, call.id, report_of(report))

    # ---- events that may happen in any order -----------------------------------------------------------------------

    def signal(self, key: int | None) -> None:
        if self.finish is None:
            self.requests += 1
            self.feed(Signalled, self.requests, Signal("paid", self.requests, None if key is None else str(key)))

    def deliver_up(self) -> None:
        if self.up and self.finish is None:
            match self.up.popleft():
                case OpenWait(wait):
                    self.feed(WaitOpened, wait)
                case CloseWait(wait_id, is_answered, returned, request):
                    self.feed(WaitClosed, wait_id, is_answered, returned, request)

    def deliver_down(self) -> None:
        """Deliver a message to the chunk; one that has ended returns its answer."""
        if not self.down:
            return
        command = self.down.popleft()
        if isinstance(command, PauseChildren):
            if self.child is not None and self.child.report is None:
                self.feed_child(PauseRequested if command.is_paused else UnpauseRequested)
            return
        if self.child is not None and self.child.report is None:
            self.feed_child(Answered, command.wait_ids, command.answer)
        elif self.child is not None:
            self.up.extend(self.child.return_answer(Answered(self.now, command.wait_ids, command.answer)))

    def time_out(self, index: int) -> None:
        """Let the wait of an item time out."""
        waits = list(self.child.state.waits.values()) if self.child is not None and not self.child.report else []
        if index < len(waits):
            self.feed_child(TimerFired, f"{waits[index].id}:timer")

    def restore(self) -> None:
        """Let both continue as new; the chunk reports its waits again."""
        state = msgspec.json.decode(msgspec.json.encode(self.parent.snapshot()))
        if self.finish is None:
            self.parent = PlaybookMachine(self.graph, execution_id=7, state=state)
            self.feed(Restored)
        if self.child is not None and self.child.report is None:
            chunk_state = msgspec.json.decode(msgspec.json.encode(self.child.snapshot()))
            self.child = loop_machine(self.input, chunk_state)
            self.feed_child(Restored)

    def end_chunk(self) -> None:
        """Deliver the end of the chunk, after all its messages."""
        if self.child is not None and self.child.report is not None and not (self.up or self.down):
            report, self.child = self.child.report, None
            self.feed(ChunkFinished, self.chunk_id, report)

    def settle(self) -> None:
        while self.up or self.down:
            self.deliver_up()
            self.deliver_down()
            if self.finish is not None:
                return
        self.end_chunk()
