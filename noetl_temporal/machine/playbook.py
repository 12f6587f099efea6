"""The machine of a playbook: events in, commands out (architecture.md 4).

How it works. A run is a set of tokens. ``feed`` takes one fact, lets the step that it concerns go on, and then
*settles*: arrivals at steps become runs of steps or wait at joins, until nothing more can happen without a new fact.
When no token is left but those waiting at the final step, that step runs, once, and the run is over.

The parts: StepRuns (steps/runs.py) starts and ends runs of steps, Joins (join.py) tells who may go on, Pipeline
(tasks/pipeline.py) runs tasks, Journal (journal.py) writes the log. This file holds the tokens.

A fact that does not fit raises ProtocolError before anything has changed. A playbook that fails is data: Finish.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Literal, assert_never

import msgspec

from noetl_compiler import templates
from noetl_compiler.graph import Graph, Json
from noetl_temporal.machine.beginning import workload_of
from noetl_temporal.machine.commands import Cancel, Command, Finish, StartTimer
from noetl_temporal.machine.errors import ProtocolError
from noetl_temporal.machine.events import (
    CancelRequested,
    Event,
    LoopFinished,
    Started,
    TimerFired,
    ToolFinished,
)
from noetl_temporal.machine.failing import error_outcome, failure_at, template_outcome
from noetl_temporal.machine.join import Joins
from noetl_temporal.machine.journal import Journal
from noetl_temporal.machine.names import playbook_scope
from noetl_temporal.machine.state import VERSION, PlaybookState
from noetl_temporal.machine.steps.execution import Execution
from noetl_temporal.machine.steps.routes import Ended
from noetl_temporal.machine.steps.runs import StepRuns
from noetl_temporal.machine.steps.summary import result_of, summary_of
from noetl_temporal.machine.tasks.rendering import seconds_of

__all__ = ["MAX_STARTS", "Machine"]

MAX_STARTS = 10_000
"""Steps that may start in one feed: a cycle of steps without any call would never end."""

_PLAYBOOK_TIMER = "playbook:timeout"


class Machine:
    """One run of a graph. ``state`` is that of an earlier machine's ``snapshot``."""

    def __init__(self, graph: Graph, *, execution_id: int, state: Json = None) -> None:
        self.graph = graph
        self.execution_id = execution_id
        self.state = PlaybookState() if state is None else _restored(state)
        self._journal = Journal(0, graph.source.file, self.state.ordinal)
        self._joins = Joins(graph)
        self._execution = Execution(graph, execution_id, self.state, self._journal)
        self._runs = StepRuns(self._execution)
        self._arrivals: deque[tuple[str, str]] = deque()
        self._starts = 0

    def snapshot(self) -> Json:
        """The state as plain JSON."""
        return msgspec.to_builtins(self.state, str_keys=True)

    def feed(self, event: Event) -> list[Command]:
        """Take one fact; the commands are to be performed in their order."""
        self._check(event)
        self._journal.open(event.at)
        self._starts = 0
        match event:
            case Started():
                self._start(event)
            case ToolFinished():
                self._go_on(self._runs.tool_finished(event))
            case TimerFired():
                self._timer_fired(event)
            case LoopFinished():
                self._go_on(self._runs.loop_finished(event))
            case CancelRequested():
                self._cancel(event)
            case _:
                assert_never(event)
        self._settle()
        self.state.ordinal = self._journal.ordinal
        return self._journal.commands

    # ---- facts ----------------------------------------------------------------------------------------------------

    def _check(self, event: Event) -> None:
        phase = self.state.phase
        if phase == "finished":
            raise ProtocolError(f"{type(event).__name__} after the end of the run")
        if isinstance(event, Started) != (phase == "new"):
            raise ProtocolError(f"{type(event).__name__} while the run is {phase}")
        if isinstance(event, ToolFinished) and not self._runs.awaits(event.call_id):
            raise ProtocolError(f"no call {event.call_id!r} is awaited")
        if isinstance(event, LoopFinished) and not self._runs.awaits(event.loop_id):
            raise ProtocolError(f"no loop {event.loop_id!r} is awaited")

    def _start(self, event: Started) -> None:
        state, emit, path = self.state, self._journal.emit, self.graph.source.path
        state.phase, state.started, state.payload = "running", event.at, event.payload
        requested = emit("playbook.execution.requested", path, "playbook", "PENDING")
        try:
            state.workload = workload_of(self.graph.workload, event.payload, self.execution_id, event.at)
            limit = self.graph.timeout.total if self.graph.timeout else None
            dialect = self.graph.source.dialect
            scope = playbook_scope(state, dialect, self.execution_id, event.at, None, ())
            seconds = seconds_of(limit, scope)
        except templates.TemplateFailure as failure:
            self._refuse(failure, requested)
            return
        emit("playbook.request.evaluated", path, "playbook", "COMPLETED", parent=requested)
        state.playbook_id = emit("playbook.started", path, "playbook", "STARTED", parent=requested)
        state.workflow_id = emit(
            "workflow.started",
            "workflow",
            "workflow",
            "STARTED",
            parent=state.playbook_id,
            entry=self.graph.entry,
        )
        if seconds is not None:
            self._journal.send(StartTimer(_PLAYBOOK_TIMER, seconds, f"playbook times out in {seconds:g}s"))
        self._arrivals.append((self.graph.entry, ""))

    def _refuse(self, failure: templates.TemplateFailure, requested: int) -> None:
        """The workload has no value, so nothing may run."""
        span = failure.span or self.graph.steps[self.graph.entry].span
        self.state.failures.append(failure_at(self.graph.source, "workload", template_outcome(failure), span))
        path = self.graph.source.path
        self._journal.emit(
            "playbook.request.evaluated",
            path,
            "playbook",
            "FAILED",
            parent=requested,
            error=failure.message,
            span=span,
        )
        self.state.playbook_id = requested
        self._finish(None)

    def _timer_fired(self, event: TimerFired) -> None:
        if event.timer_id == _PLAYBOOK_TIMER:
            self._time_out()
        else:
            self._go_on(self._runs.timer_fired(event))

    def _time_out(self) -> None:
        span = self.graph.steps[self.graph.entry].span
        outcome = error_outcome("timeout", "the playbook did not end in its time")
        self.state.failures.append(failure_at(self.graph.source, "playbook", outcome, span))
        self._drain()

    def _cancel(self, event: CancelRequested) -> None:
        if not self.state.cancelled:
            self.state.cancelled, self.state.reason = True, event.reason
            self._drain()

    def _drain(self) -> None:
        """Let nothing new begin but the final step; what runs is asked to stop."""
        self.state.draining = True
        for ended in self._runs.cancel_all():
            self._go_on(ended)

    # ---- tokens ---------------------------------------------------------------------------------------------------

    def _go_on(self, ended: Ended | None) -> None:
        """A run of a step is over: its token moves on."""
        if ended is None:
            return
        if ended.step == self.graph.final:
            self._finish(ended)
            return
        if ended.fail_fast and not self.state.draining:
            self._drain()
        self._arrivals.extend((target, ended.step) for target in ended.targets)

    def _settle(self) -> None:
        while self.state.phase == "running":
            while self._arrivals and self.state.phase == "running":
                self._arrive(*self._arrivals.popleft())
            if self.state.phase != "running" or not self._release():
                return

    def _arrive(self, step: str, origin: str) -> None:
        state, final = self.state, self.graph.final
        if state.draining and step != final:
            step = final
        if self._joins.absorbs(step, origin, state.counts.get(step, 0) > 0):
            return
        if self._joins.waits(step):
            state.waiting.setdefault(step, []).append(origin)
        else:
            self._run(step)

    def _release(self) -> bool:
        """Start what need not wait any more; False when the run waits for a fact."""
        state = self.state
        running = [run.step for run in state.runs.values()]
        if state.draining:
            state.waiting = {self.graph.final: [origin for origins in state.waiting.values() for origin in origins]}
        ready = self._joins.ready(state.waiting, running)
        if not ready and not running:
            ready = [self.graph.final]
        for step in ready:
            origins = state.waiting.pop(step, [])
            if step == self.graph.final:
                state.leads = list(dict.fromkeys(origins))
            self._run(step)
        return bool(ready)

    def _run(self, step: str) -> None:
        self._starts += 1
        if self._starts > MAX_STARTS:
            self._give_up(step)
        elif step == self.graph.final and self.state.cancelled:
            self._finish(None)
        else:
            self._go_on(self._runs.start(self.graph.steps[step]))

    def _give_up(self, step: str) -> None:
        outcome = error_outcome("budget", f"{MAX_STARTS:,} steps ran without any call: a cycle without a way out")
        span = self.graph.steps[step].span
        self.state.failures.append(failure_at(self.graph.source, step, outcome, span))
        self._runs.cancel_all()
        self._finish(None)

    # ---- the end --------------------------------------------------------------------------------------------------

    def _finish(self, ended: Ended | None) -> None:
        state = self.state
        failed = any(not failure.handled for failure in state.failures)
        status: Literal["completed", "failed", "cancelled"]
        status = "cancelled" if state.cancelled else "failed" if failed else "completed"
        self._emit_end(status)
        state.phase = "finished"
        self._arrivals.clear()
        if self.graph.timeout is not None:
            self._journal.send(Cancel(_PLAYBOOK_TIMER))
        self._journal.send(
            Finish(
                status,
                result=result_of(self._execution) if ended else None,
                failures=tuple(state.failures),
                steps=summary_of(self._execution),
            )
        )

    def _emit_end(self, status: str) -> None:
        state = self.state
        unhandled = [failure for failure in state.failures if not failure.handled]
        records = state.records
        meta: dict[str, Any] = {
            "evaluated_by_end_step": self.graph.final in records,
            "total_steps": len(records),
            "failed_steps_count": sum(1 for record in records.values() if record.status == "failed"),
            "reason": state.reason or None,
        }
        error = unhandled[0].message if unhandled else None
        if state.workflow_id:
            self._journal.emit(
                "workflow.finished",
                "workflow",
                "workflow",
                status.upper(),
                parent=state.workflow_id,
                started=state.started,
                error=error,
                **meta,
            )
        self._journal.emit(
            f"playbook.{status}",
            self.graph.source.path,
            "playbook",
            status.upper(),
            parent=state.playbook_id,
            started=state.started,
            error=error,
            **meta,
        )


def _restored(state: Json) -> PlaybookState:
    """A snapshot's state. ValueError for another version's."""
    if state.get("version", VERSION) != VERSION:
        raise ValueError(f"snapshot version {state.get('version')} is not {VERSION}: finish the run on its old workers")
    return msgspec.convert(state, PlaybookState, str_keys=True)
