"""The machine of a loop's chunk: iterations of one loop step, in a workflow of their own.

How it works. Iterations start in index order while fewer than ``max_in_flight`` run; each is a run of the step's tasks
with names of its own, on the same engine as the steps of a playbook. What an iteration sets in ``ctx`` it sees itself;
a sequential loop lets the next iteration see it too, a parallel one does not, and when the loop ends the playbook
applies all of it in index order, so the last index wins (semantics.md 16). A failed iteration stops the others only
under ``on_error: fail_fast``. A stop starts no further iteration; those cut off count as skipped, like those that
never ran. Items given back (RestRequested) are the next chunk's, and count nowhere here.

``report`` is set with Finish: ordered results of every iteration, counts, failures and what to set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from noetl_compiler.graph import Json
from noetl_temporal.limits import INLINE_BYTES
from noetl_temporal.machine import json_merge
from noetl_temporal.machine.call import PlainOutcome
from noetl_temporal.machine.commands import Cancel, ChunkInput, CloseWait, Finish, KeepValues, OpenWait
from noetl_temporal.machine.engine import Engine
from noetl_temporal.machine.errors import ProtocolError
from noetl_temporal.machine.events import (
    Answered,
    ChunkReport,
    Event,
    LimitReached,
    Resumed,
    Started,
    ValuesKept,
)
from noetl_temporal.machine.failures import error_outcome, failure_at
from noetl_temporal.machine.ids import EventIds
from noetl_temporal.machine.journal import RESULT_BYTES
from noetl_temporal.machine.loops.host import IterationHost, iteration_ids
from noetl_temporal.machine.loops.offload import results_to_store, stored_results
from noetl_temporal.machine.loops.result import too_large
from noetl_temporal.machine.rollback import Runs
from noetl_temporal.machine.state import Iteration, LoopState, Pending, restored
from noetl_temporal.machine.stored import preview, stored_in, whole_result
from noetl_temporal.machine.tasks.pipeline import End
from noetl_temporal.machine.tasks.plan import StepPlan
from noetl_temporal.machine.tasks.waits import Ending
from noetl_temporal.machine.waits.matching import may_wait
from noetl_temporal.machine.waits.wait import Wait

__all__ = ["LoopMachine"]

_RESULTS = "results"
"""The id under which the machine keeps them."""

_ENDS = {
    "ok": ("loop.iteration.done", "COMPLETED"),
    "error": ("loop.iteration.failed", "FAILED"),
    "cancelled": ("loop.iteration.cancelled", "CANCELLED"),
}


class LoopMachine(Engine[LoopState, Iteration]):
    """One run of a loop. ``state`` is that of an earlier machine's ``snapshot``."""

    def __init__(self, input_: ChunkInput, state: Json = None, *, limit: int = INLINE_BYTES) -> None:
        new = LoopState(ids=EventIds.above(input_.slot, input_.after), ctx=input_.ctx)
        machine_state = new if state is None else restored(state, LoopState, strict=False)
        self.input = input_
        self.report: ChunkReport | None = None
        self._plan = StepPlan(input_.step)
        super().__init__(machine_state, input_.source.file, limit)

    def _runs_in(self, state: LoopState) -> Runs[Iteration]:
        state.runs = runs = Runs(state.runs)
        return runs

    # ---- facts ----------------------------------------------------------------------------------------------------

    def _start(self, event: Started) -> None:
        """Nothing to do: iterations start as the machine proceeds."""
        del event

    def _rest_requested(self) -> None:
        self.state.is_closed = True

    def _deadline_passed(self, deadline: Pending) -> None:
        raise ProtocolError(f"{deadline.owner}: a loop has no deadline of its own, its step's is kept by the playbook")

    def _take(self, event: Event) -> None:
        match event:
            case Answered(_, wait_id, answer) if wait_id in self.state.waits:
                self._end_wait(self.state.waits[wait_id], "done", {"status": "ok", "result": answer.result})
            case Answered():
                self._journal.send(self.returned(event))
            case _:
                super()._take(event)

    def returned(self, late: Answered) -> CloseWait:
        """What tells the playbook that an answer came too late for its wait."""
        return CloseWait(f"{self.input.chunk_id} {late.wait_id}", returned=late.answer.signal)

    def _resume(self, event: Resumed) -> None:
        """What was sent while the run before ended may be lost: the playbook is told again of every wait."""
        super()._resume(event)
        for wait in self.state.waits.values():
            self._wait_opened(wait)

    def _wait_opened(self, wait: Wait) -> None:
        if wait.kind != "time":
            self._journal.send(OpenWait(wait.seen_from_outside(self.input.chunk_id)))

    def _wait_closed(self, wait: Wait, ending: Ending) -> None:
        if wait.kind != "time":
            outside = wait.seen_from_outside(self.input.chunk_id).id
            self._journal.send(CloseWait(outside, is_answered=ending == "done"))

    def _limit_reached(self, event: LimitReached) -> None:
        if self.state.stop is None:
            self.state.failure = error_outcome("too_large", event.message)
            self._stop("limit", event.message)

    # ---- iterations -----------------------------------------------------------------------------------------------

    def _proceed(self) -> None:
        state = self.state
        while self._has_items_left() and len(state.runs) < self.input.max_in_flight and self._may_start():
            self._begin_iteration(state.next)
        if state.runs or self._has_items_left() or _RESULTS in state.pending:
            return
        given = results_to_store(self.input, state, self._limit)
        if given is None:
            self._finish()
        else:
            state.pending[_RESULTS] = Pending("keep", "")
            self._journal.send(KeepValues(_RESULTS, (given,), f"results of {self.input.step.name}"))

    def _values_kept(self, owner: str, event: ValuesKept) -> None:
        """The results, which this machine no longer has then; without a place for them the chunk fails."""
        del owner
        if event.error:
            self.state.failure = self.state.failure or error_outcome("internal", event.error)
            self._drop_results()
        else:
            self.state.kept = event.kept[0]

    def _drop_results(self) -> None:
        self.state.results.clear()
        self.state.stored.clear()

    def _ask_to_end(self) -> None:
        """A chunk that stops does not wait until its results are stored."""
        super()._ask_to_end()
        if self.state.pending.pop(_RESULTS, None) is not None:
            self._journal.send(Cancel(_RESULTS))
            self._drop_results()

    def _has_items_left(self) -> bool:
        state = self.state
        return state.stop is None and not state.is_closed and state.next < len(self.input.items)

    @property
    def may_give_back(self) -> bool:
        """Whether there are items that a RestRequested would give back. A chunk that may wait for long keeps them."""
        return self._has_items_left() and not may_wait(self.input.step)

    def _may_start(self) -> bool:
        return not (self.state.holding or self.budget.is_spent)

    def _is_waiting_for_budget(self) -> bool:
        state = self.state
        may_begin = self._has_items_left() and len(state.runs) < self.input.max_in_flight
        return state.phase == "running" and (bool(state.ready) or may_begin)

    def _begin_iteration(self, position: int) -> None:
        self.budget.work()
        state, index = self.state, self.input.first + position
        state.next = position + 1
        iteration = Iteration(id=str(index), event_id=0, started=self._journal.at, index=index)
        iteration.event_id = self._journal.emit(
            "loop.iteration.started",
            self.input.step.name,
            "iteration",
            "STARTED",
            parent=self.input.event_id,
            meta=iteration_ids(self.input, index),
        )
        state.runs[iteration.id] = iteration
        self._begin_pipeline(iteration)

    def _run_ended(self, run: Iteration, end: End, kind: str) -> None:
        del kind
        state, index = self.state, run.index
        del state.runs[run.id]
        state.attempts += run.pipeline.attempts if run.pipeline else 0
        self._emit_end(run, end)
        if run.assigns:
            state.assigns[index] = run.assigns
        match end.status:
            case "ok":
                state.succeeded += 1
                self._add_result(index, end.outcome)
                if self.input.is_sequential:
                    state.ctx = json_merge.merged(state.ctx, run.ctx)
            case "error":
                self._iteration_failed(end, index)
            case "cancelled":
                pass

    def _add_result(self, index: int, outcome: PlainOutcome) -> None:
        stored = stored_in(outcome)
        if stored is not None and stored.is_one:
            self.state.stored[index] = stored
        else:
            self.state.results[index] = whole_result(outcome)

    def _iteration_failed(self, end: End, index: int) -> None:
        step, source = self.input.step, self.input.source
        failure = failure_at(
            source, step.name, end.outcome, end.span, run=self.input.run, task=end.task, iteration=index
        )
        self.state.failures = self.state.failures.with_item_failure(failure)
        if step.loop is not None and step.loop.on_error == "fail_fast":
            self._stop("fail_fast", f"item {index} failed")

    def _emit_end(self, run: Iteration, end: End) -> None:
        name, status = _ENDS[end.status]
        error: Mapping[str, Json] = end.outcome.get("error") or {}
        self._journal.emit(
            name,
            self.input.step.name,
            "iteration",
            status,
            parent=run.event_id,
            ends=run.event_id,
            started=run.started,
            result=preview(end.outcome, RESULT_BYTES) if end.status == "ok" else None,
            error=str(error["message"]) if "message" in error else None,
            span=end.span if end.status == "error" else None,
            meta=iteration_ids(self.input, run.index),
        )

    def _is_exempt(self, run: Iteration) -> bool:
        del run
        return False

    def _host(self, run: Iteration) -> IterationHost:
        return IterationHost(self.input, self._plan, self.state, run, self._journal)

    def _warn(self, message: str) -> None:
        step, parent = self.input.step.name, self.input.event_id
        self._journal.warn(message, step, "loop", parent, step=step, loop_id=self.input.loop_id)

    # ---- the end --------------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        state = self.state
        rest = len(self.input.items) - state.next if state.is_closed and state.stop is None else 0
        total = len(self.input.items) - rest
        state.phase = "ended"
        indices = range(self.input.first, self.input.first + total)
        results: list[Json] = []
        if state.kept is None:
            results = [state.results.get(index) for index in indices]
            refused = too_large(results, self._limit)
            if refused is not None:
                state.failure = state.failure or refused
                results = []
        failed = state.failures.total
        status: Literal["ok", "error", "cancelled"] = (
            "cancelled" if self.is_cancelled else "error" if failed or state.failure else "ok"
        )
        skipped = total - state.succeeded - failed
        self.report = ChunkReport(
            status=status,
            results=results,
            stats={"total": total, "success": state.succeeded, "failed": failed, "skipped": skipped},
            failures=state.failures,
            failure=state.failure,
            assigns=tuple(pair for index in indices for pair in state.assigns.get(index, [])),
            ctx=state.ctx if self.input.is_sequential else {},
            attempts=state.attempts,
            rest=rest,
            clock=state.ids.last,
            mistakes=tuple(state.mistakes),
            stored=None if state.kept is None else stored_results(state, indices, state.kept),
        )
        ended: dict[str, Literal["completed", "failed", "cancelled"]] = {
            "ok": "completed",
            "error": "failed",
            "cancelled": "cancelled",
        }
        self._drop_loads()
        self._journal.send(Finish(ended[status], started=state.started))
