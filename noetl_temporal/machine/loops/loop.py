"""The machine of a loop's chunk: iterations of one loop step, in a workflow of their own.

iterations.py runs the iterations. After a stop none starts; cancelled ones count as skipped, like those that never ran.
Items that are returned (ReturnRequested) belong to the next chunk, so this chunk does not count them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from noetl_compiler.graph import Json
from noetl_temporal.limits import INLINE_BYTES
from noetl_temporal.machine.commands import Cancel, ChunkInput, CloseWait, Finish, OpenWait, StoreValues
from noetl_temporal.machine.errors import ProtocolError
from noetl_temporal.machine.facts import (
    Answered,
    ChunkReport,
    Fact,
    LimitReached,
    Restored,
    Started,
    ValuesStored,
)
from noetl_temporal.machine.failures import error_outcome
from noetl_temporal.machine.ids import EventIds
from noetl_temporal.machine.loops.iterations import Iterations
from noetl_temporal.machine.loops.offload import results_to_store
from noetl_temporal.machine.loops.report import chunk_report
from noetl_temporal.machine.loops.result import too_large
from noetl_temporal.machine.state import LoopState, Pending, restore_state
from noetl_temporal.machine.tasks.waits import WaitEnd
from noetl_temporal.machine.waits.matching import may_wait
from noetl_temporal.machine.waits.wait import Answer, Wait

__all__ = ["LoopMachine"]

_RESULTS = "results"
"""The id under which the results of the chunk are stored."""


_FINISHES: Mapping[str, Literal["completed", "failed", "cancelled"]] = {
    "ok": "completed",
    "error": "failed",
    "cancelled": "cancelled",
}


class LoopMachine(Iterations):
    """One chunk of a loop. ``state`` is the ``snapshot`` of an earlier machine; an inner machine gets its state itself.
    ``limit`` is the maximum size of a value in bytes.

    ``report`` is set with the command Finish: the results of all iterations in order, counts, failures and the values
    to set.
    """

    def __init__(self, input_: ChunkInput, state: Json | LoopState = None, *, limit: int = INLINE_BYTES) -> None:
        machine_state = state if isinstance(state, LoopState) else _restore_state(state, input_)
        self.report: ChunkReport | None = None
        super().__init__(input_, machine_state, limit)

    # ---- facts ------------------------------------------------------------------------------------------------------

    def _start(self, fact: Started) -> None:
        """Nothing to do: ``_start_runs_or_finish`` starts the iterations."""
        del fact

    def _return_items(self) -> None:
        self.state.is_closed = True

    def _deadline_passed(self, deadline: Pending) -> None:
        raise ProtocolError(f"{deadline.owner}: a loop has no deadline: the playbook has that of its step")

    def _apply_request(self, fact: Fact) -> None:
        match fact:
            case Answered(_, wait_ids, answer):
                for wait_id in wait_ids:
                    self._take_answer(wait_id, answer)
            case _:
                super()._apply_request(fact)

    def _take_answer(self, wait_id: str, answer: Answer) -> None:
        wait = self.state.waits.get(wait_id)
        if wait is not None:
            request = answer.signal.request_id if answer.signal is not None else 0
            self._journal.add(CloseWait(self._qualified(wait).id, is_answered=True, request_id=request))
            self._machine_of_run(wait.run)._apply_answer(wait, answer)
        else:
            self._journal.add(self._return_command(wait_id, answer))

    def return_answer(self, fact: Answered) -> list[CloseWait]:
        """Return the messages that tell the playbook that an answer came too late for these waits."""
        return [self._return_command(wait_id, fact.answer) for wait_id in fact.wait_ids]

    def _return_command(self, wait_id: str, answer: Answer) -> CloseWait:
        return CloseWait(f"{self.input.chunk_id} {wait_id}", returned=answer.signal)

    def _restore(self, fact: Restored) -> None:
        """See Engine. Messages of the earlier workflow run may be lost, so all waits are reported again."""
        super()._restore(fact)
        for wait in self.state.waits.values():
            self._wait_opened(wait)

    def _wait_opened(self, wait: Wait) -> None:
        if wait.kind != "time":
            self._journal.add(OpenWait(self._qualified(wait)))

    def _wait_closed(self, wait: Wait, ending: WaitEnd) -> None:
        if wait.kind != "time" and ending != "done":
            self._journal.add(CloseWait(self._qualified(wait).id))

    def _qualified(self, wait: Wait) -> Wait:
        return wait.qualified(self.input.chunk_id)

    def _limit_reached(self, fact: LimitReached) -> None:
        if self.state.stop is None:
            self.state.failure = error_outcome("too_large", fact.message)
            self._stop("limit", fact.message)

    def _emit_pause(self, type_: str, status: str, by: str, reason: str) -> None:
        """Nothing to do: the playbook emits the event, for its loops as well."""

    def _warn(self, message: str) -> None:
        step, parent = self.input.step.name, self.input.event_id
        self._journal.warn(message, step, "loop", parent, step=step, loop_id=self.input.loop_id)

    # ---- results ----------------------------------------------------------------------------------------------------

    def _start_runs_or_finish(self) -> None:
        state = self.state
        self._start_iterations()
        if state.runs or self._has_items_left() or _RESULTS in state.pending:
            return
        results = self._results_to_store()
        if results is None:
            self._finish()
        else:
            state.pending[_RESULTS] = Pending("store", "")
            self._journal.add(StoreValues(_RESULTS, (results,), f"results of {self.input.step.name}"))

    def _results_to_store(self) -> list[Json] | None:
        return results_to_store(self.input, self.state, self._limit)

    def _values_stored(self, owner: str, fact: ValuesStored) -> None:
        """Replace the results of the chunk by a reference to them. The chunk fails if they could not be stored."""
        del owner
        if fact.error:
            self.state.failure = self.state.failure or error_outcome("internal", fact.error)
            self._drop_results()
        else:
            self.state.results_ref = fact.references[0]

    def _drop_results(self) -> None:
        self.state.results.clear()
        self.state.stored_results.clear()

    def _cancel_stopped_runs(self) -> None:
        """See Stopping. A chunk that stops does not wait until its results are stored."""
        super()._cancel_stopped_runs()
        if self.state.pending.pop(_RESULTS, None) is not None:
            self._journal.add(Cancel(_RESULTS))
            self._drop_results()

    # ---- the end ----------------------------------------------------------------------------------------------------

    @property
    def may_return_items(self) -> bool:
        """Whether there are items that a ReturnRequested would return. A chunk with waits or holds returns none."""
        region_steps = self.input.steps.values()
        has_waits = any(map(may_wait, (self.input.step, *region_steps)))
        has_holds = any(step.hold is not None for step in region_steps)
        return self._has_items_left() and not (has_waits or has_holds)

    def _returned_count(self) -> int:
        """Return the number of items that are returned to the playbook."""
        state = self.state
        return len(self.input.items) - state.next_position if state.is_closed and state.stop is None else 0

    def _item_count(self) -> int:
        """Return the number of items that belong to this chunk, without those that are returned."""
        return len(self.input.items) - self._returned_count()

    def _finish(self) -> None:
        state = self.state
        returned_count, total = self._returned_count(), self._item_count()
        state.phase = "ended"
        indices = range(self.input.first, self.input.first + total)
        results: list[Json] = []
        if state.results_ref is None:
            results = [state.results.get(index) for index in indices]
            size_failure = too_large(results, self._limit)
            if size_failure is not None:
                state.failure = state.failure or size_failure
                results = []
        self.report = chunk_report(self.input, state, results, total, returned_count)
        self._close(Finish(_FINISHES[self.report.status], started=state.started))

    def _close(self, finish: Finish) -> None:
        self._drop_loads()
        self._journal.add(finish)


def _restore_state(snapshot: Json, input_: ChunkInput) -> LoopState:
    if snapshot is None:
        return LoopState(
            ids=EventIds.starting_after(input_.slot, input_.after), ctx=input_.ctx, circuits=dict(input_.circuits)
        )
    return restore_state(snapshot, LoopState, strict=False)
