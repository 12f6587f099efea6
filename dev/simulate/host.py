"""Hosts a machine in the simulated world: feeds facts, performs commands, and keeps what it waits for."""

from __future__ import annotations

import json
import math
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from dev.simulate.calls import cancelled_report
from dev.simulate.run_trace import Finding, MachineTrace, Turn
from dev.simulate.simulated_values import SimulatedValues
from dev.simulate.waits import Mailbox
from noetl_temporal.limits import STORE_FROM_BYTES
from noetl_temporal.machine.call import ToolCall, ToolReport
from noetl_temporal.machine.commands import (
    AnswerWait,
    CallTool,
    Cancel,
    ChunkInput,
    CloseWait,
    Command,
    Finish,
    LoadValue,
    OpenWait,
    PauseChildren,
    RunChunk,
    StartTimer,
    StoreValues,
)
from noetl_temporal.machine.facts import (
    CancelRequested,
    ChunkFinished,
    ChunkReport,
    Continued,
    Fact,
    IdleRequested,
    PauseRequested,
    PayloadRef,
    Restored,
    TimerFired,
    ToolFinished,
    UnpauseRequested,
    ValueLoaded,
    ValuesStored,
)
from noetl_temporal.machine.loops.loop import LoopMachine
from noetl_temporal.machine.playbook import PlaybookMachine

__all__ = ["Host", "HostWorld"]

MAX_COMMAND_BYTES = 1_500_000
MAX_FEED_SECONDS = 2.0
FACT: Any = Fact
Make = Callable[[Any], "PlaybookMachine | LoopMachine"]


class Alarm(Protocol):
    """A scheduled event, which is dropped if it is ``off``."""

    off: bool


class Child(Protocol):
    """What runs a chunk: a host of its own, or a frame (frames.py)."""

    def ask_to_stop(self) -> None: ...


class HostWorld(Protocol):
    """The part of the world that a host uses."""

    now: int
    store: SimulatedValues

    def later(self, ms: int, act: Callable[[], None]) -> Alarm: ...
    def draw(self, low: int, high: int) -> int: ...
    def occurs(self, probability: float) -> bool: ...
    def call(self, call: ToolCall, on_end: Callable[[ToolReport], None]) -> Alarm: ...
    def begin(self, parent: Host, chunk_id: str, chunk_input: ChunkInput) -> Child: ...


class Pending:
    """Something that a machine waits for. ``kind`` is call, timer, chunk, store or load."""

    def __init__(self, kind: str, alarm: Alarm | None = None, child: Child | None = None) -> None:
        self.kind, self.alarm, self.child = kind, alarm, child
        self.is_stopping = False


class Host:
    """``make`` builds the machine from a snapshot, None for a new one; ``on_finish`` gets the machine's Finish."""

    def __init__(self, world: HostWorld, trace: MachineTrace, make: Make, on_finish: Callable[[Finish], None]) -> None:
        self.world, self.trace, self.make, self.on_finish = world, trace, make, on_finish
        self.machine = make(None)
        self.pending: dict[str, Pending] = {}
        self.mail: Mailbox | None = None
        self._pauses: deque[PauseChildren] = deque()
        self.is_over = False
        self.continue_as_new_mode = ""
        self._is_restored = False
        self._is_continuing = False

    # ---- facts ----------------------------------------------------------------------------------------------------

    def feed(self, fact: Fact) -> None:
        """Feed a fact to the machine and perform its commands."""
        if self.is_over:
            return
        fact = msgspec.convert(msgspec.to_builtins(fact), FACT)
        turn = Turn(fact, [], self._is_restored)
        self._is_restored = False
        self.trace.turns.append(turn)
        turn.commands = self._commands_for(fact)
        turn.has_work_left, turn.is_budget_spent = self.machine.has_work, self.machine.budget.is_spent()
        self._check(turn.commands)
        for command in turn.commands:
            self._perform(command)
        self._after()

    def _commands_for(self, fact: Fact) -> list[Command]:
        start = time.process_time()
        try:
            commands = self.machine.feed(fact)
        except Exception as error:
            raise Finding(f"feed raises {type(error).__name__}", str(error)[:500]) from error
        seconds = time.process_time() - start
        if seconds > MAX_FEED_SECONDS:
            raise Finding("a feed takes too long", f"{seconds:.1f} s for {type(fact).__name__}")
        return commands

    def _check(self, commands: list[Command]) -> None:
        size = sum(min(len(msgspec.json.encode(command)), STORE_FROM_BYTES) for command in commands)
        if size > MAX_COMMAND_BYTES * 1.2:
            raise Finding("a feed gives too many commands", f"{size:,} bytes of {MAX_COMMAND_BYTES:,}")

    def _after(self) -> None:
        if self.is_over:
            return
        if self.trace.turns[-1].has_work_left and not self._is_continuing:
            self._is_continuing = True
            self.world.later(self.world.draw(0, 20), self._continue)
        busy = any(pending.kind != "timer" for pending in self.pending.values())
        if self.machine.is_idle == busy:
            raise Finding("is_idle is not true", f"it says {not busy}, pending are {list(self.pending)[:3]}")
        if self.continue_as_new_mode and not busy:
            self._continue_as_new()

    def _continue(self) -> None:
        self._is_continuing = False
        if not self.is_over and self.machine.has_work:
            self.feed(Continued(self.world.now))

    # ---- continue-as-new ------------------------------------------------------------------------------------------

    def request_continue_as_new(self, mode: str) -> None:
        """Continue as new as soon as the machine is idle; with ``hold``, nothing begins until then."""
        if self.is_over or self.continue_as_new_mode or not self.trace.turns:
            return
        self.continue_as_new_mode = mode
        if mode == "hold":
            self.feed(IdleRequested(self.world.now, self.world.occurs(0.5) * "the history is long"))
        else:
            self._after()

    def _continue_as_new(self) -> None:
        self.continue_as_new_mode = ""
        for pending in self.pending.values():
            if pending.alarm is not None:
                pending.alarm.off = True
        self.pending.clear()
        self.machine = self.make(self.snapshot())
        self._is_restored, self._is_continuing = True, False
        self.feed(Restored(self.world.now))

    def snapshot(self) -> Any:
        """Return the machine's snapshot as it is in history."""
        try:
            return json.loads(json.dumps(self.machine.snapshot(), allow_nan=False))
        except Exception as error:
            raise Finding(f"a snapshot raises {type(error).__name__}", str(error)[:500]) from error

    # ---- commands -------------------------------------------------------------------------------------------------

    def _perform(self, command: Command) -> None:
        match command:
            case CallTool():
                self._add_pending(command.call.id, self._call(command.call))
            case StartTimer():
                self._add_pending(command.timer_id, self._timer(command))
            case RunChunk():
                self._run_chunk(command)
            case StoreValues():
                self._add_pending(
                    command.id, self._pending_store_access("store", ValuesStored, command.id, self._store(command))
                )
            case LoadValue():
                value = self.world.store.load(command.stored)
                self._add_pending(command.id, self._pending_store_access("load", ValueLoaded, command.id, value))
            case Cancel():
                self._cancel(command.id)
            case Finish():
                self._finish(command)
            case OpenWait() | CloseWait() | AnswerWait() | PauseChildren():
                self._notify(command)
            case _:
                pass

    def _notify(self, command: OpenWait | CloseWait | AnswerWait | PauseChildren) -> None:
        match command:
            case AnswerWait():
                self._chunk_mail(command.chunk_id).send_to_chunk(command)
            case PauseChildren():
                self._pause_children(command)
            case _:
                if self.mail is not None:
                    self.mail.send_to_playbook(command)

    def _pause_children(self, command: PauseChildren) -> None:
        for pending in self.pending.values():
            if isinstance(pending.child, Host):
                pending.child.receive_pause(command)

    @property
    def calls(self) -> list[Pending]:
        """Return all calls in flight, including those of its chunks."""
        calls_of_chunks = [
            call for pending in self.pending.values() if isinstance(pending.child, Host) for call in pending.child.calls
        ]
        return [*(pending for pending in self.pending.values() if pending.kind == "call"), *calls_of_chunks]

    def receive_pause(self, command: PauseChildren) -> None:
        """Apply the parent's pause or resume after a delay, in the order of the requests."""
        self._pauses.append(command)
        self.world.later(self.world.draw(0, 40), self._apply_pause)

    def _apply_pause(self) -> None:
        if self.is_over:
            return
        if not self.trace.turns:
            self.world.later(1, self._apply_pause)
            return
        pause = self._pauses.popleft()
        self.feed((PauseRequested if pause.is_paused else UnpauseRequested)(self.world.now, by=pause.by))

    def _chunk_mail(self, chunk_id: str) -> Mailbox:
        child = self.pending[chunk_id].child
        if not isinstance(child, Host) or child.mail is None:
            raise Finding("an answer for an unknown chunk", chunk_id)
        return child.mail

    def _add_pending(self, id_: str, pending: Pending) -> None:
        if id_ in self.pending:
            raise Finding("an id is used twice at a time", id_)
        self.pending[id_] = pending

    def _call(self, call: ToolCall) -> Pending:
        pending = Pending("call")
        pending.alarm = self.world.call(call, lambda report: self._call_ended(call.id, pending, report))
        return pending

    def _call_ended(self, id_: str, pending: Pending, report: ToolReport) -> None:
        """End a call, maybe before its scheduled end, which is then dropped."""
        if self.pending.get(id_) is pending:
            if pending.alarm is not None:
                pending.alarm.off = True
            self._feed_result(ToolFinished, id_, report)

    def _store(self, command: StoreValues) -> tuple[PayloadRef, ...]:
        return tuple(self.world.store.keep(value) for value in command.values)

    def _pending_store_access(self, kind: str, fact: Any, id_: str, values: Any) -> Pending:
        """Schedule the response of the payload store, at once or after an outage."""
        ms = self.world.draw(0, 10) if self.world.occurs(0.95) else 30_000
        return Pending(kind, self.world.later(ms, lambda: self._feed_result(fact, id_, values)))

    def _timer(self, command: StartTimer) -> Pending:
        seconds: Any = command.seconds
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not math.isfinite(seconds):
            raise Finding("a timer without a valid duration", f"{command.timer_id} waits {seconds!r} s")
        if seconds < 0:
            raise Finding("a timer without a valid duration", f"{command.timer_id} waits {seconds!r} s")
        ms = min(int(seconds * 1000), 10**12)
        return Pending("timer", self.world.later(ms, lambda: self._feed_result(TimerFired, command.timer_id)))

    def _run_chunk(self, command: RunChunk) -> None:
        chunk_input = msgspec.json.decode(msgspec.json.encode(command.input), type=ChunkInput)
        self._add_pending(command.chunk_id, Pending("chunk", None))
        self.pending[command.chunk_id].child = self.world.begin(self, command.chunk_id, chunk_input)

    def _feed_result(self, kind: Any, id_: str, *fields: Any) -> None:
        if self.pending.pop(id_, None) is not None and not self.is_over:
            self.feed(kind(self.world.now, id_, *fields))

    def chunk_finished(self, chunk_id: str, report: ChunkReport) -> None:
        """Receive the end of a child, after all its other messages."""
        self.world.later(self.world.draw(0, 30), lambda: self._chunk_finished(chunk_id, report))

    def _chunk_finished(self, chunk_id: str, report: ChunkReport) -> None:
        pending = self.pending.get(chunk_id)
        child = None if pending is None else pending.child
        if isinstance(child, Host) and child.mail is not None and not child.mail.is_empty:
            self.world.later(1, lambda: self._chunk_finished(chunk_id, report))
        else:
            self._feed_result(ChunkFinished, chunk_id, report)

    def _cancel(self, id_: str) -> None:
        pending = self.pending.get(id_)
        if pending is None or pending.is_stopping:
            return
        pending.is_stopping = True
        if pending.kind in ("timer", "load", "store") and pending.alarm is not None:
            pending.alarm.off = True
            del self.pending[id_]
        elif pending.kind == "call" and pending.alarm is not None and (self.world.occurs(0.7) or pending.alarm.off):
            pending.alarm.off = True
            report = cancelled_report()
            self.world.later(self.world.draw(0, 2000), lambda: self._feed_result(ToolFinished, id_, report, True))
        elif pending.child is not None:
            pending.child.ask_to_stop()

    def ask_to_stop(self) -> None:
        """Cancel after a delay, as a parent does."""
        self.trace.stop_requested = True
        self.world.later(self.world.draw(0, 50), self.stop)

    def stop(self) -> None:
        """Feed the request to cancel."""
        if self.trace.turns:
            self.feed(CancelRequested(self.world.now, "stop"))
        elif not self.is_over:
            self.world.later(1, self.stop)

    def _finish(self, command: Finish) -> None:
        unfinished = [id_ for id_, running in self.pending.items() if running.kind != "timer"]
        if unfinished:
            raise Finding("a run ends before what it began", ", ".join(unfinished[:5]))
        for pending in self.pending.values():
            if pending.alarm is not None:
                pending.alarm.off = True
        self.pending.clear()
        self.is_over = True
        self.on_finish(command)
