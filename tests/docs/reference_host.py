"""Runs a playbook of the reference: the real machine and the real tools, without Temporal.

Retry delays and waits take no time here and are recorded; timeouts of steps, loops and playbooks are real.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError

from noetl_activities.credentials import Credentials, CredentialSource
from noetl_activities.tool import Tool
from noetl_compiler.graph import Graph
from noetl_compiler.language.tools import PLAYBOOK
from noetl_temporal.call_log import CallLog, now
from noetl_temporal.machine.call import PlainOutcome, ToolCall, ToolReport
from noetl_temporal.machine.commands import (
    AnswerWait,
    CallTool,
    Cancel,
    CloseWait,
    Command,
    Emit,
    Finish,
    OpenWait,
    RunChunk,
    StartTimer,
)
from noetl_temporal.machine.domain import DomainEvent
from noetl_temporal.machine.events import (
    Answered,
    CancelRequested,
    ChunkFinished,
    Continued,
    Decided,
    Event,
    Signalled,
    Started,
    TimerFired,
    ToolFinished,
    WaitClosed,
    WaitOpened,
)
from noetl_temporal.machine.failures import error_outcome
from noetl_temporal.machine.loops.loop import LoopMachine
from noetl_temporal.machine.playbook import Machine
from noetl_temporal.machine.waits.refusals import decision_problem, signal_problem
from noetl_temporal.machine.waits.wait import Signal
from noetl_temporal.run_tool import Attempt
from noetl_temporal.tool_outcome import refusal
from noetl_temporal.value_store import ValueStore

__all__ = ["ReferenceRun", "Told", "run_playbook"]


@dataclass
class ReferenceRun:
    """What a run came to. ``calls`` are the names of the tasks in the order of their calls, ``outcomes`` the last
    outcome of each task, ``attempts`` the number of its attempts, ``delays`` the seconds waited before retries.
    """

    tools: Mapping[str, Tool]
    source: CredentialSource
    called: Mapping[str, Graph]
    finish: Finish | None = None
    events: list[DomainEvent] = field(default_factory=list[DomainEvent])
    calls: list[str] = field(default_factory=list[str])
    outcomes: dict[str, PlainOutcome] = field(default_factory=dict[str, PlainOutcome])
    attempts: dict[str, int] = field(default_factory=dict[str, int])
    delays: list[float] = field(default_factory=list[float])


@dataclass
class Told:
    """What a run is told from outside: signals by name, decisions by step."""

    signals: Mapping[str, Any]
    decisions: Mapping[str, Mapping[str, Any]]

    def facts(self, machine: Machine) -> Iterator[Event]:
        """The signals, each of which the run has to accept."""
        for number, (name, told) in enumerate(self.signals.items(), 1):
            found = cast("dict[str, Any]", told) if isinstance(told, dict) else {}
            signal = Signal(name, found["data"], str(found["key"])) if "key" in found else Signal(name, told)
            assert signal_problem(machine.graph, machine.state, signal, []) is None
            yield Signalled(now(), number, signal)

    def decision(self, machine: Machine) -> Decided | None:
        """That on the first approval that is open."""
        wait = next((one for one in machine.state.waits.values() if one.step in self.decisions), None)
        if wait is None:
            return None
        decided = Decided(now(), 1_000 + machine.state.ids.last, wait.id, **self.decisions[wait.step])
        assert decision_problem(machine.state, decided, []) is None
        return decided


NOTHING_TOLD = Told({}, {})


async def run_playbook(
    graph: Graph,
    tools: Mapping[str, Tool],
    source: CredentialSource,
    execution_id: int,
    payload: dict[str, Any],
    called: Mapping[str, Graph],
    told: Told = NOTHING_TOLD,
) -> ReferenceRun:
    """Run to the end. The loops and calls that are left then are cancelled. ``called`` are the playbooks that it may
    call, by their paths.
    """
    run = ReferenceRun(tools, source, called)
    machine = Machine(graph, execution_id=execution_id, secrets_key=f"of {execution_id}")
    host = _Host(machine, run)
    host.send_first(told.facts(machine))
    host.decides = lambda: told.decision(machine)
    run.finish = await host.drive(payload)
    return run


class _Host:
    def __init__(self, machine: Machine | LoopMachine, run: ReferenceRun, parent: _Host | None = None) -> None:
        self._parent = parent
        self.decides: Callable[[], Decided | None] = lambda: None
        self._machine = machine
        self._run = run
        self._inbox: asyncio.Queue[Event] = asyncio.Queue()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._loops: dict[str, _Host] = {}

    async def drive(self, payload: dict[str, Any], return_step: str = "") -> Finish:
        commands = self._machine.feed(Started(now(), payload, return_step))
        while True:
            for command in commands:
                if isinstance(command, Finish):
                    return command
                self._perform(command)
            event: Event | None = Continued(now()) if self._machine.has_work else self.decides()
            event = event or await self._inbox.get()
            commands = self._machine.feed(event)

    def send_first(self, facts: Iterable[Event]) -> None:
        for fact in facts:
            self._inbox.put_nowait(fact)

    def cancel(self) -> None:
        self._inbox.put_nowait(CancelRequested(now()))

    def _perform(self, command: Command) -> None:
        match command:
            case Emit():
                self._run.events.append(command.event)
            case CallTool():
                self._start(command.call.id, self._call(command.call))
            case StartTimer():
                self._start(command.timer_id, self._wait(command.timer_id, command.seconds))
            case RunChunk():
                self._start(command.chunk_id, self._chunk(command))
            case Cancel():
                self._cancel(command.id)
            case OpenWait(wait) if self._parent is not None:
                self._parent.send_first([WaitOpened(now(), wait)])
            case CloseWait(wait_id, is_answered, returned) if self._parent is not None:
                self._parent.send_first([WaitClosed(now(), wait_id, is_answered, returned)])
            case AnswerWait(chunk_id, wait_id, answer):
                self._loops[chunk_id].send_first([Answered(now(), wait_id, answer)])
            case _:
                raise AssertionError(f"the reference runs without a payload store: {command}")

    def _start(self, id_: str, work: Coroutine[Any, Any, None]) -> None:
        task = self._tasks[id_] = asyncio.create_task(work)
        task.add_done_callback(self._fail_loudly)

    def _fail_loudly(self, task: asyncio.Task[None]) -> None:
        """A fault of this host must not leave the run waiting."""
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    def _cancel(self, id_: str) -> None:
        if id_ in self._loops:
            self._loops[id_].cancel()
        elif id_ in self._tasks:
            self._tasks[id_].cancel()

    async def _wait(self, timer_id: str, seconds: float) -> None:
        is_timeout = timer_id.endswith(":timeout")
        if not is_timeout:
            self._run.delays.append(seconds)
        await asyncio.sleep(seconds if is_timeout else 0)
        self._inbox.put_nowait(TimerFired(now(), timer_id))

    async def _chunk(self, command: RunChunk) -> None:
        machine = LoopMachine(command.input)
        loop = self._loops[command.chunk_id] = _Host(machine, self._run, self)
        await loop.drive({})
        assert machine.report is not None
        self._inbox.put_nowait(ChunkFinished(max(now(), machine.report.clock), command.chunk_id, machine.report))

    async def _call(self, call: ToolCall) -> None:
        self._run.calls.append(call.task)
        try:
            report = await (self._playbook(call) if call.kind == PLAYBOOK else self._attempts(call))
        except asyncio.CancelledError:
            cancelled = ToolReport(refusal("cancelled", "the call was cancelled"), is_decided=False)
            self._inbox.put_nowait(ToolFinished(now(), call.id, cancelled, cancelled=True))
            return
        self._run.outcomes[call.task] = report.outcome
        self._inbox.put_nowait(ToolFinished(now(), call.id, report))

    async def _playbook(self, call: ToolCall) -> ToolReport:
        self._run.attempts[call.task] = self._run.attempts.get(call.task, 0) + 1
        run = ReferenceRun(self._run.tools, self._run.source, self._run.called)
        machine = Machine(self._run.called[call.config["path"]], execution_id=call.execution_id)
        finish = await _Host(machine, run).drive(call.input, call.config.get("return_step") or "")
        cause = finish.failures.cause
        if finish.status == "completed" or cause is None:
            return ToolReport({"status": "ok", "result": finish.result}, is_decided=False)
        message = f"the playbook {call.config['path']!r} failed: step {cause.step!r} failed: {cause.message}"
        return ToolReport(error_outcome(cause.kind, message), is_decided=False)

    async def _attempts(self, call: ToolCall) -> ToolReport:
        log, values = CallLog(), ValueStore(DataConverter.default)
        while True:
            log.begin()
            self._run.attempts[call.task] = self._run.attempts.get(call.task, 0) + 1
            attempt = Attempt(
                self._run.tools[call.kind],
                call,
                Credentials(self._run.source, call.secrets_key),
                log,
                values,
                asyncio.Event(),
            )
            try:
                return await attempt.run()
            except ApplicationError as again:
                delay = again.next_retry_delay
                self._run.delays.append(delay.total_seconds() if delay else 0)
