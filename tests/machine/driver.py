"""Runs a machine in memory: a function answers its tool calls, time is a counter."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from noetl_compiler import compile_or_raise
from noetl_compiler.graph import Graph
from noetl_temporal.event_ids import EPOCH_MS
from noetl_temporal.machine.call import ToolCall, ToolReport
from noetl_temporal.machine.commands import (
    AnswerWait,
    CallTool,
    Cancel,
    CloseWait,
    Command,
    Emit,
    Finish,
    LoadValue,
    OpenWait,
    PauseChildren,
    RunChunk,
    StartTimer,
    StoreValues,
)
from noetl_temporal.machine.domain import DomainEvent
from noetl_temporal.machine.facts import (
    CancelRequested,
    ChunkFinished,
    Continued,
    Fact,
    RerunSource,
    Started,
    TimerFired,
    ToolFinished,
)
from noetl_temporal.machine.loops.cursor import loop_machine
from noetl_temporal.machine.loops.loop import LoopMachine
from noetl_temporal.machine.playbook import PlaybookMachine

Answer = Callable[[ToolCall], Any]

SECRETS_KEY = "of the run"


@dataclass
class Run:
    """The outcome of a driven run."""

    finish: Finish
    events: list[DomainEvent] = field(default_factory=list[DomainEvent])
    calls: list[ToolCall] = field(default_factory=list[ToolCall])
    delays: list[float] = field(default_factory=list[float])

    def types(self, *, without: Iterable[str] = ()) -> list[str]:
        return [event.type for event in self.events if event.type not in set(without)]

    def of(self, type_: str) -> list[DomainEvent]:
        return [event for event in self.events if event.type == type_]


def ok(result: Any = None, **facts: Any) -> ToolReport:
    return ToolReport({"status": "ok", "result": result, **facts})


def error(message: str = "boom", kind: str = "tool", rule: int | None = None, **facts: Any) -> ToolReport:
    failed = {"kind": kind, "message": message, "retryable": False}
    return ToolReport({"status": "error", "error": failed, **facts}, rule=rule)


def worker_lost(message: str = "gone", kind: str = "worker_lost") -> ToolReport:
    """Return the report that the shell makes for a call whose activity never reported."""
    return msgspec.structs.replace(error(message, kind), is_decided=False)


def report_of(answer: Any) -> ToolReport:
    return answer if isinstance(answer, ToolReport) else ok(answer)


def _first(_count: int) -> int:
    return 0


class Driver:
    """Performs commands one at a time; ``pick`` chooses the call, timer or chunk that ends next."""

    def __init__(self, answer: Answer, pick: Callable[[int], int] | None = None) -> None:
        self.answer = answer
        self.pick: Callable[[int], int] = pick or _first
        self.now = EPOCH_MS
        self.events: list[DomainEvent] = []
        self.calls: list[ToolCall] = []
        self.delays: list[float] = []

    def drive(
        self,
        machine: PlaybookMachine | LoopMachine,
        payload: dict[str, Any] | None = None,
        return_step: str = "",
        earlier: RerunSource | None = None,
    ) -> Finish:
        in_flight: deque[Callable[[int], Fact]] = deque()
        ids: deque[str] = deque()
        commands = machine.feed(Started(self._tick(), payload or {}, return_step, earlier))
        while True:
            finish = self._perform(commands, in_flight, ids)
            if finish is not None:
                return finish
            if machine.has_work:
                commands = machine.feed(Continued(self._tick()))
                continue
            assert in_flight, "the machine waits for nothing"
            index = self.pick(len(in_flight)) % len(in_flight)
            fact_of = in_flight[index]
            del in_flight[index], ids[index]
            commands = machine.feed(fact_of(self._tick()))

    def _tick(self) -> int:
        self.now += 10
        return self.now

    def _perform(
        self, commands: list[Command], in_flight: deque[Callable[[int], Fact]], ids: deque[str]
    ) -> Finish | None:
        for command in commands:
            match command:
                case Emit(event):
                    self.events.append(event)
                case CallTool(call):
                    self.calls.append(call)
                    in_flight.append(partial(self._tool, call))
                    ids.append(call.id)
                case StartTimer(timer_id, seconds):
                    if timer_id.endswith(":timeout"):
                        continue
                    self.delays.append(seconds)
                    in_flight.append(partial(TimerFired, timer_id=timer_id))
                    ids.append(timer_id)
                case RunChunk(chunk_id, input_):
                    in_flight.append(partial(self._loop, chunk_id, input_))
                    ids.append(chunk_id)
                case Cancel(id_):
                    self._cancel_call(id_, in_flight, ids)
                case StoreValues() | LoadValue() | OpenWait() | CloseWait() | AnswerWait() | PauseChildren():
                    raise AssertionError(f"the driver has no payload store and answers no waits: {command}")
                case Finish():
                    return command
        return None

    def _cancel_call(self, id_: str, in_flight: deque[Callable[[int], Fact]], ids: deque[str]) -> None:
        if id_ not in ids:
            return
        index = ids.index(id_)
        if id_.endswith(":delay"):
            del in_flight[index], ids[index]
        elif ":" in id_:
            report = error("cancelled", "cancelled")
            in_flight[index] = lambda at: ToolFinished(at, id_, report, cancelled=True)

    def _tool(self, call: ToolCall, at: int) -> Fact:
        return ToolFinished(at, call.id, report_of(self.answer(call)))

    def _loop(self, loop_id: str, input_: Any, at: int) -> Fact:
        machine = loop_machine(input_)
        self.drive(machine)
        assert machine.report is not None
        return ChunkFinished(max(at, self._tick()), loop_id, machine.report)


def run_graph(
    graph: Graph,
    answer: Answer,
    payload: dict[str, Any] | None = None,
    pick: Callable[[int], int] | None = None,
) -> Run:
    driver = Driver(answer, pick)
    finish = driver.drive(PlaybookMachine(graph, execution_id=7, secrets_key=SECRETS_KEY), payload)
    return Run(finish, driver.events, driver.calls, driver.delays)


def run_text(
    text: str, answer: Answer, payload: dict[str, Any] | None = None, pick: Callable[[int], int] | None = None
) -> Run:
    return run_graph(compile_or_raise(text), answer, payload, pick)


__all__ = [
    "SECRETS_KEY",
    "CancelRequested",
    "Driver",
    "Run",
    "error",
    "ok",
    "report_of",
    "run_graph",
    "run_text",
    "worker_lost",
]
