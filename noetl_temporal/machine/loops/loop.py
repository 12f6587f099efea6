"""The machine of a loop: the iterations of one loop step, in a workflow of their own.

How it works. Iterations start in index order while fewer than ``max_in_flight`` run; each is a pipeline of the step's
tasks with names of its own. What an iteration sets in ``ctx`` it sees itself; a sequential loop lets the next
iteration see it too, a parallel one does not, and when the loop ends the playbook applies all of it in index order,
so the last index wins (semantics.md 16). A failed iteration stops the others only under ``on_error: fail_fast``.

``report`` is set with Finish: ordered results of every iteration, counts, failures and what to set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, assert_never

import msgspec

from noetl_compiler.graph import Json
from noetl_temporal.machine import trees
from noetl_temporal.machine.commands import Cancel, Command, Finish, LoopInput
from noetl_temporal.machine.errors import ProtocolError
from noetl_temporal.machine.events import (
    CancelRequested,
    Event,
    LoopFinished,
    LoopReport,
    Started,
    TimerFired,
    ToolFinished,
)
from noetl_temporal.machine.failing import failure_at
from noetl_temporal.machine.journal import Journal, abridged
from noetl_temporal.machine.loops.host import IterationHost, iteration_ids
from noetl_temporal.machine.state import VERSION, IterationState, LoopState, PipelineState
from noetl_temporal.machine.tasks.pipeline import End, Pipeline

__all__ = ["LoopMachine"]


class LoopMachine:
    """One run of a loop. ``state`` is that of an earlier machine's ``snapshot``."""

    def __init__(self, input_: LoopInput, state: Json = None) -> None:
        self.input = input_
        self.state = LoopState() if state is None else _restored(state)
        self.report: LoopReport | None = None
        self._journal = Journal(input_.lane, input_.source.file, self.state.ordinal)
        self._by_pending = {one.pipeline.pending: one for one in self.state.active.values()}

    def snapshot(self) -> Json:
        """The state as plain JSON."""
        return msgspec.to_builtins(self.state, str_keys=True)

    def feed(self, event: Event) -> list[Command]:
        """Take one fact; the commands are to be performed in their order."""
        self._check(event)
        self._journal.open(event.at)
        match event:
            case Started():
                self.state.phase = "running"
            case ToolFinished():
                self._tool_finished(event)
            case TimerFired():
                self._timer_fired(event)
            case CancelRequested():
                self._cancel()
            case LoopFinished():
                raise ProtocolError("a loop runs no loops")
            case _:
                assert_never(event)
        self._go_on()
        self.state.ordinal = self._journal.ordinal
        return self._journal.commands

    def _check(self, event: Event) -> None:
        phase = self.state.phase
        if phase == "finished":
            raise ProtocolError(f"{type(event).__name__} after the end of the loop")
        if isinstance(event, Started) != (phase == "new"):
            raise ProtocolError(f"{type(event).__name__} while the loop is {phase}")
        if isinstance(event, ToolFinished) and event.call_id not in self._by_pending:
            raise ProtocolError(f"no call {event.call_id!r} is awaited")

    # ---- facts ----------------------------------------------------------------------------------------------------

    def _tool_finished(self, event: ToolFinished) -> None:
        iteration = self._by_pending.pop(event.call_id)
        pipeline = self._pipeline(iteration)
        pipeline.tool_finished(event.report, event.cancelled)
        self._after(iteration, pipeline)

    def _timer_fired(self, event: TimerFired) -> None:
        iteration = self._by_pending.pop(event.timer_id, None)
        if iteration is not None:
            pipeline = self._pipeline(iteration)
            pipeline.timer_fired()
            self._after(iteration, pipeline)

    def _cancel(self) -> None:
        self.state.cancelled = True
        self._stop()

    def _stop(self) -> None:
        """No further iteration; those in flight are asked to end."""
        self.state.stopping = True
        for iteration in list(self.state.active.values()):
            pending = iteration.pipeline.pending
            self._journal.send(Cancel(pending))
            if iteration.pipeline.phase == "delay":
                self._by_pending.pop(pending, None)
                self._end(iteration, End("cancelled", {"status": "error"}, None, self.input.step.span))

    # ---- iterations -----------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        state = self.state
        while not state.stopping and state.next < len(self.input.items):
            if len(state.active) >= self.input.max_in_flight:
                return
            self._begin(state.next)
        if not state.active and (state.stopping or state.next >= len(self.input.items)):
            self._finish()

    def _begin(self, position: int) -> None:
        state, index = self.state, self.input.first + position
        state.next = position + 1
        iteration = IterationState(index, 0, self._journal.at, PipelineState())
        iteration.event_id = self._journal.emit(
            "loop.iteration.started",
            self.input.step.name,
            "iteration",
            "STARTED",
            parent=self.input.event_id,
            **iteration_ids(self.input, index),
        )
        state.active[str(index)] = iteration
        pipeline = self._pipeline(iteration)
        pipeline.begin()
        self._after(iteration, pipeline)

    def _after(self, iteration: IterationState, pipeline: Pipeline) -> None:
        if pipeline.end is not None:
            self._end(iteration, pipeline.end)
        else:
            self._by_pending[iteration.pipeline.pending] = iteration

    def _end(self, iteration: IterationState, end: End) -> None:
        state, index = self.state, iteration.index
        del state.active[str(index)]
        state.attempts += iteration.pipeline.attempts
        state.results[index] = end.outcome.get("result") if end.status == "ok" else None
        if iteration.assigns:
            state.assigns[index] = iteration.assigns
        if end.status == "ok" and self._is_sequential:
            state.ctx = trees.merged(state.ctx, iteration.ctx)
        self._emit_end(iteration, end)
        if end.status != "error":
            return
        step, source = self.input.step, self.input.source
        state.failed.append(index)
        state.failures.append(failure_at(source, step.name, end.outcome, end.span, end.task, index))
        if step.loop is not None and step.loop.on_error == "fail_fast" and not state.stopping:
            self._stop()

    def _emit_end(self, iteration: IterationState, end: End) -> None:
        names = {
            "ok": ("done", "COMPLETED"),
            "error": ("failed", "FAILED"),
            "cancelled": ("cancelled", "CANCELLED"),
        }
        name, status = names[end.status]
        error: Mapping[str, Json] = end.outcome.get("error") or {}
        self._journal.emit(
            f"loop.iteration.{name}",
            self.input.step.name,
            "iteration",
            status,
            parent=iteration.event_id,
            started=iteration.started,
            result=abridged(end.outcome.get("result")) if end.status == "ok" else None,
            error=str(error["message"]) if "message" in error else None,
            span=end.span if end.status == "error" else None,
            **iteration_ids(self.input, iteration.index),
        )

    @property
    def _is_sequential(self) -> bool:
        return self.input.max_in_flight == 1

    # ---- the end --------------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        state, total = self.state, len(self.input.items)
        state.phase = "finished"
        failed = len(state.failed)
        ran = len(state.results)
        indices = range(self.input.first, self.input.first + total)
        status = "cancelled" if state.cancelled else "error" if failed else "ok"
        self.report = LoopReport(
            status=status,
            results=[state.results.get(index) for index in indices],
            stats={"total": total, "success": ran - failed, "failed": failed, "skipped": total - ran},
            failures=tuple(sorted(state.failures, key=lambda failure: failure.iteration or 0)),
            assigns=tuple(pair for index in indices for pair in state.assigns.get(index, [])),
            attempts=state.attempts,
        )
        ended: dict[str, Literal["completed", "failed", "cancelled"]] = {
            "ok": "completed",
            "error": "failed",
            "cancelled": "cancelled",
        }
        self._journal.send(Finish(ended[status]))

    def _pipeline(self, iteration: IterationState) -> Pipeline:
        return Pipeline(IterationHost(self.input, self.state, iteration, self._journal), iteration.pipeline)


def _restored(state: Json) -> LoopState:
    """A snapshot's state. ValueError for another version's."""
    if state.get("version", VERSION) != VERSION:
        raise ValueError(f"snapshot version {state.get('version')} is not {VERSION}: finish the run on its old workers")
    return msgspec.convert(state, LoopState, str_keys=True, strict=False)
