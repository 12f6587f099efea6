"""Runs a playbook in memory, without Temporal: the real machine, with attempts, sinks and rules as in a worker.

A World performs the calls and knows the time: that of ``noetl test`` has stubs and virtual time, that of the tests of
the reference has the real tools.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from temporalio.exceptions import ApplicationError

from noetl_compiler.graph import Graph, Json
from noetl_compiler.language.tools import PLAYBOOK
from noetl_temporal.calls.call_log import CallLog
from noetl_temporal.calls.run_tool import Attempt
from noetl_temporal.calls.tool_outcome import failed_outcome
from noetl_temporal.machine.call import ToolCall, ToolReport
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
from noetl_temporal.machine.domain import DomainEvent
from noetl_temporal.machine.facts import (
    Answered,
    CancelRequested,
    ChunkFinished,
    Continued,
    Fact,
    PauseRequested,
    Started,
    TimerFired,
    ToolFinished,
    UnpauseRequested,
    WaitClosed,
    WaitOpened,
)
from noetl_temporal.machine.failures import error_outcome
from noetl_temporal.machine.loops.cursor import loop_machine
from noetl_temporal.machine.loops.loop import LoopMachine
from noetl_temporal.machine.playbook import PlaybookMachine
from noetl_temporal.machine.waits.wait import Signal
from noetl_temporal.naming import SUCCEEDED

__all__ = ["TrialCall", "TrialRun", "World", "run_graph"]


class World(Protocol):
    """The environment of a run: its clock, and the responses of its calls."""

    def now(self) -> int:
        """Return milliseconds since the epoch."""
        ...

    async def wait(self, seconds: float, *, is_timeout: bool) -> None:
        """Wait for ``seconds``. A wait that is not a timeout may take no time."""
        ...

    def playbook(self, call: ToolCall) -> Graph | ToolReport:
        """Return the playbook that the call runs, or the report of the call. An exception ends the run."""
        ...

    def start_requests(self, machine: PlaybookMachine, run: TrialRun, receive: Callable[[Fact], None]) -> None:
        """Start sending the requests of people and programs."""
        ...

    def attempt(self, call: ToolCall, log: CallLog) -> Attempt:
        """Return the attempt that has begun in the log. An exception ends the run."""
        ...


@dataclass
class TrialCall:
    """A call with all its attempts; ``report`` is its outcome, None until it has ended."""

    call: ToolCall
    attempts: int = 0
    report: ToolReport | None = None


@dataclass
class TrialRun:
    """A run in memory up to its end, or to the point at which it stopped. ``delays`` are those before retries, pages
    and jumps, and those of waits that ended at a time, in seconds. ``results`` has the last result of each step,
    ``unused_signals`` the signals that no step took.
    """

    finish: Finish = field(default_factory=lambda: Finish("failed"))
    events: list[DomainEvent] = field(default_factory=list[DomainEvent])
    calls: list[TrialCall] = field(default_factory=list[TrialCall])
    delays: list[float] = field(default_factory=list[float])
    results: dict[str, Json] = field(default_factory=dict[str, Json])
    unused_signals: list[Signal] = field(default_factory=list[Signal])


async def run_graph(graph: Graph, world: World, execution_id: int, payload: dict[str, Json], run: TrialRun) -> None:
    """Run to the end, and record in ``run`` what happens. Raises what the world raises."""
    machine = PlaybookMachine(graph, execution_id=execution_id, secrets_key=f"of {execution_id}")
    host = _Host(machine, world, run)
    world.start_requests(machine, run, host.receive)
    try:
        run.finish = await host.drive(payload)
    finally:
        host.close()
    records = machine.state.records
    run.results = {step: record.outcome.get("result") for step, record in records.items()}
    run.unused_signals = [signal for queue in machine.state.queued_signals.values() for signal in queue]


class _WorldLog(CallLog):
    """The attempts of one call."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def now(self) -> int:
        """Return milliseconds since the epoch."""
        return self._world.now()


class _Host:
    """Hosts one machine in memory. The facts of everything that ends are put into its inbox, as are exceptions."""

    def __init__(
        self, machine: PlaybookMachine | LoopMachine, world: World, run: TrialRun, parent: _Host | None = None
    ) -> None:
        self._parent = parent
        self._machine = machine
        self._world = world
        self._run = run
        self._inbox: asyncio.Queue[Fact | BaseException] = asyncio.Queue()
        self._tasks: dict[str, asyncio.Task[Any]] = {}
        self._loops: dict[str, _Host] = {}

    async def drive(self, payload: dict[str, Json], return_step: str = "") -> Finish:
        commands = self._machine.feed(Started(self._now(), payload, return_step))
        while True:
            for command in commands:
                if isinstance(command, Finish):
                    return command
                self._perform(command)
            fact = Continued(self._now()) if self._machine.has_work else await self._inbox.get()
            if isinstance(fact, BaseException):
                raise fact
            commands = self._machine.feed(fact)

    def receive(self, fact: Fact) -> None:
        self._inbox.put_nowait(fact)

    def cancel(self) -> None:
        self._inbox.put_nowait(CancelRequested(self._now()))

    def close(self) -> None:
        """Cancel what still runs: deadlines that did not pass, and everything after a fault."""
        for task in self._tasks.values():
            task.cancel()
        for loop in self._loops.values():
            loop.close()

    def _now(self) -> int:
        return self._world.now()

    def _perform(self, command: Command) -> None:
        match command:
            case Emit():
                self._run.events.append(command.event)
            case CallTool():
                trial_call = TrialCall(command.call)
                self._run.calls.append(trial_call)
                work = (
                    self._run_playbook(trial_call)
                    if trial_call.call.kind == PLAYBOOK
                    else self._run_attempts(trial_call)
                )
                self._start(trial_call.call.id, work).add_done_callback(partial(self._on_call_end, trial_call))
            case StartTimer():
                timer = self._start(command.timer_id, self._wait(command))
                timer.add_done_callback(partial(self._on_timer, command.timer_id))
            case RunChunk():
                machine = loop_machine(command.input)
                loop = self._loops[command.chunk_id] = _Host(machine, self._world, self._run, self)
                chunk = self._start(command.chunk_id, loop.drive({}))
                chunk.add_done_callback(partial(self._on_chunk_end, command.chunk_id, loop, machine))
            case Cancel():
                self._cancel(command.id)
            case _:
                self._pass_on(command)

    def _pass_on(self, command: Command) -> None:
        """Pass on a message between a loop and its playbook."""
        match command:
            case OpenWait(wait) if self._parent is not None:
                self._parent.receive(WaitOpened(self._now(), wait))
            case CloseWait(wait_id, is_answered, returned, request) if self._parent is not None:
                self._parent.receive(WaitClosed(self._now(), wait_id, is_answered, returned, request))
            case AnswerWait(chunk_id, wait_ids, answer):
                self._loops[chunk_id].receive(Answered(self._now(), wait_ids, answer))
            case PauseChildren(is_paused, by, reason):
                fact = PauseRequested if is_paused else UnpauseRequested
                for loop in self._loops.values():
                    loop.receive(fact(self._now(), by=by, reason=reason))
            case _:
                raise AssertionError(f"a run in memory has no payload store: {command}")

    def _start(self, id_: str, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = self._tasks[id_] = asyncio.create_task(work)
        return task

    def _cancel(self, id_: str) -> None:
        if id_ in self._loops:
            self._loops[id_].cancel()
        elif id_ in self._tasks:
            self._tasks[id_].cancel()

    # ---- timers and loops -------------------------------------------------------------------------------------------

    async def _wait(self, command: StartTimer) -> None:
        timer = self._machine.state.timers.get(command.timer_id)
        kind = "delay" if timer is None else timer.kind
        if kind == "delay":
            self._run.delays.append(command.seconds)
        await self._world.wait(command.seconds, is_timeout=command.timer_id.endswith(":timeout"))
        if kind == "wait":
            self._run.delays.append(command.seconds)

    def _on_timer(self, timer_id: str, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            self._inbox.put_nowait(task.exception() or TimerFired(self._now(), timer_id))

    def _on_chunk_end(self, chunk_id: str, loop: _Host, machine: LoopMachine, task: asyncio.Task[Finish]) -> None:
        if task.cancelled():
            return
        report = machine.report
        if (fault := task.exception()) is not None:
            self._inbox.put_nowait(fault)
        elif report is not None:
            self._inbox.put_nowait(ChunkFinished(max(self._now(), report.last_event_ms), chunk_id, report))
        loop.close()
        del self._loops[chunk_id]

    # ---- calls ------------------------------------------------------------------------------------------------------

    async def _run_playbook(self, trial_call: TrialCall) -> ToolReport:
        """Run a called playbook, which is a run of its own."""
        trial_call.attempts += 1
        call, playbook = trial_call.call, self._world.playbook(trial_call.call)
        if isinstance(playbook, ToolReport):
            return playbook
        host = _Host(PlaybookMachine(playbook, execution_id=call.execution_id), self._world, TrialRun())
        try:
            finish = await host.drive(call.input, call.config.get("return_step") or "")
        finally:
            host.close()
        cause = finish.failures.cause
        if finish.status in SUCCEEDED or cause is None:
            return ToolReport({"status": "ok", "result": finish.result}, is_decided=False)
        message = f"the playbook {call.config['path']!r} failed: step {cause.step!r} failed: {cause.message}"
        return ToolReport(error_outcome(cause.kind, message), is_decided=False)

    async def _run_attempts(self, trial_call: TrialCall) -> ToolReport:
        log = _WorldLog(self._world)
        while True:
            log.begin_attempt()
            trial_call.attempts += 1
            try:
                return await self._world.attempt(trial_call.call, log).run()
            except ApplicationError as retry:
                delay = retry.next_retry_delay
                seconds = delay.total_seconds() if delay else 0.0
            self._run.delays.append(seconds)
            await self._world.wait(seconds, is_timeout=False)

    def _on_call_end(self, trial_call: TrialCall, task: asyncio.Task[ToolReport]) -> None:
        if not task.cancelled() and (fault := task.exception()) is not None:
            self._inbox.put_nowait(fault)
            return
        is_cancelled = task.cancelled()
        outcome = failed_outcome("cancelled", "the call was cancelled")
        trial_call.report = ToolReport(outcome, is_decided=False) if is_cancelled else task.result()
        self._inbox.put_nowait(ToolFinished(self._now(), trial_call.call.id, trial_call.report, cancelled=is_cancelled))
