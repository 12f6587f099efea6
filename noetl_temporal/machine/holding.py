"""The part of a playbook's machine that people control: its pause, and failed step runs that are held until a person
retries or skips them (semantics.md 41, 42).

A held run counts as running: joins wait for it, and the other branches continue, including those that its failure would
stop. The timeouts of the playbook, and of the loops that contain the step, are suspended meanwhile.

A held run is a wait of its machine. If it is inside a loop, it is a wait of the playbook's machine, too, which passes
the decision to the loop's chunk (waits/answering.py).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from msgspec.structs import replace

from noetl_compiler.graph import Graph, Step
from noetl_temporal.machine.facts import Fact, PauseRequested, RetryRequested, SkipRequested, UnpauseRequested
from noetl_temporal.machine.state import Held, StepRun
from noetl_temporal.machine.steps.execution import Execution
from noetl_temporal.machine.steps.exits import end_run_for_retry
from noetl_temporal.machine.steps.holds import (
    begin_hold,
    end_hold,
    end_with_provided_result,
    hold_id,
    mark_failures_handled,
    wait_for_decision,
)
from noetl_temporal.machine.tasks.task_executions import End
from noetl_temporal.machine.waits.answering import Answering
from noetl_temporal.machine.waits.refusals import is_repeated, remember_request
from noetl_temporal.machine.waits.wait import Answer, HeldDecision, Wait

__all__ = ["Holding"]


class Holding(Answering):
    """A machine whose steps may be held."""

    graph: Graph
    _execution: Execution

    def _apply_request(self, fact: Fact) -> None:
        match fact:
            case RetryRequested() | SkipRequested():
                self._decide_held(fact)
            case PauseRequested(request_id=id_) | UnpauseRequested(request_id=id_) if id_:
                if not is_repeated(id_, self.state, ()):
                    remember_request(id_, self.state)
                    super()._apply_request(fact)
            case _:
                super()._apply_request(fact)

    @property
    def is_suspended(self) -> bool:
        """Whether the run is paused, or a step of it is held: its status is ``paused``."""
        return self.is_paused or any(wait.kind == "held" for wait in self.state.waits.values())

    def _emit_pause(self, type_: str, status: str, by: str, reason: str) -> None:
        path, parent = self.graph.source.path, self.state.playbook_id
        self._journal.emit(type_, path, "playbook", status, parent=parent, by=by or None, reason=reason or None)

    # ---- holding --------------------------------------------------------------------------------------------------

    def _is_to_hold(self, step: Step, end: End) -> bool:
        return end.status == "error" and step.hold is not None and self.state.stop is None

    def _begin_hold(self, step: Step, run: StepRun, end: End, kind: str) -> None:
        held, seconds = begin_hold(self._execution, step, run, end, kind)
        self._start_timer(hold_id(run), "hold", run.id, seconds, f"{step.name} is held")
        wait = wait_for_decision(self._execution, run, held)
        self.state.waits[wait.id] = wait
        self._adjust_deadlines()
        self._wait_opened(wait)

    def _runs_with_holds(self) -> set[str]:
        """Return the ids of runs that are held or contain a held step. If there are any, add "" for the playbook."""
        ids, runs = super()._runs_with_holds(), self.state.runs.values()
        ids |= {run.id for run in runs if run.held}
        if loops := [run for run in runs if run.loop]:
            chunks = {wait.chunk for wait in self.state.waits.values() if wait.kind == "held" and wait.chunk}
            ids |= {run.id for run in loops if run.loop and chunks & run.loop.chunks.keys()}
        return {"", *ids} if ids else ids

    # ---- decisions ------------------------------------------------------------------------------------------------

    def _decide_held(self, fact: RetryRequested | SkipRequested) -> None:
        """Retry or skip held runs. A request that is late or repeated has no effect."""
        waits_by_run = {wait.run: wait for wait in self.state.waits.values() if wait.kind == "held"}
        waits = [waits_by_run[run] for run in fact.runs if run in waits_by_run]
        if not waits or is_repeated(fact.request_id, self.state, ()):
            return
        remember_request(fact.request_id, self.state)
        if isinstance(fact, RetryRequested):
            decision = HeldDecision("retry", by=fact.by, reason=fact.reason)
        else:
            decision = HeldDecision("skip", fact.data, fact.by, fact.reason)
        self._answer_all(waits, Answer(decision=decision))

    def _answer_all(self, waits: Sequence[Wait], answer: Answer) -> None:
        """Apply the answer to held runs; those of a chunk get it in one message. The first answer may stop the
        playbook, which ends the other waits.
        """
        waits_by_chunk: dict[str, list[Wait]] = {}
        for wait in waits:
            if wait.chunk:
                waits_by_chunk.setdefault(wait.chunk, []).append(wait)
            elif wait.id in self.state.waits:
                self._apply_answer(wait, answer)
        for chunk, waits_of_chunk in waits_by_chunk.items():
            if open_waits := [wait for wait in waits_of_chunk if wait.id in self.state.waits]:
                self._send_answer(chunk, open_waits, answer)

    def _apply_answer(self, wait: Wait, answer: Answer) -> None:
        run, decision = self._runs.get_mutable(wait.run), answer.decision
        if decision is None or run is None or run.held is None:
            super()._apply_answer(wait, answer)
        elif decision.action == "skip":
            self._skip(run, run.held, decision)
        elif self.is_paused:
            run.held = replace(run.held, retry_decision=decision)
            self._drop_timer(hold_id(run))
        else:
            self._retry(run, run.held, decision)

    def _retry_decided(self) -> None:
        """Repeat the runs for which a retry was requested while the machine was paused."""
        for run in [
            candidate
            for candidate in self.state.runs.values()
            if candidate.held is not None and candidate.held.retry_decision is not None
        ]:
            held = self._runs[run.id].held
            if held is not None and held.retry_decision is not None:
                self._retry(run, held, held.retry_decision)

    def _retry(self, run: StepRun, held: Held, decision: HeldDecision) -> None:
        step = self.graph.steps[run.step]
        end = self._end_hold(run, held, "retry", decision)
        mark_failures_handled(self._execution, step, run, end)
        self._remove_run(run)
        end_run_for_retry(self._execution, step, run, end, held.kind)
        self._repeat(step, run)

    def _skip(self, run: StepRun, held: Held, decision: HeldDecision) -> None:
        step = self.graph.steps[run.step]
        failure = self._end_hold(run, held, "skip", decision)
        end = end_with_provided_result(self._execution, step, run, held, decision.data)
        if self._is_to_hold(step, end):
            self._begin_hold(step, run, end, held.kind)
            return
        mark_failures_handled(self._execution, step, run, failure)
        self._end_run(run, end, held.kind)

    def _hold_ended(self, run: StepRun) -> None:
        if run.held is not None:
            self._fail_held_run(run, run.held, "timeout")

    def _end_all_holds(self) -> None:
        """End all holds, because the playbook stops."""
        for run in self._runs.all_mutable():
            if run.held is not None and self.state.phase == "running":
                self._fail_held_run(run, run.held, "stop")

    def _fail_held_run(self, run: StepRun, held: Held, action: str) -> None:
        """End the hold, and end the run as failed."""
        self._end_run(run, self._end_hold(run, held, action), held.kind)

    def _end_hold(self, run: StepRun, held: Held, action: str, decision: HeldDecision | None = None) -> End:
        by, reason = ("", "") if decision is None else (decision.by, decision.reason)
        end = end_hold(self._execution, self.graph.steps[run.step], run, held, action, by, reason)
        self._drop_timer(hold_id(run))
        wait = self.state.waits.pop(hold_id(run))
        self._adjust_deadlines()
        self._wait_closed(wait, "cancelled" if decision is None else "done")
        return end

    # ---- defined by the playbook's machine ------------------------------------------------------------------------

    @abstractmethod
    def _remove_run(self, run: StepRun) -> None:
        """Remove the run from those that joins wait for."""

    @abstractmethod
    def _end_run(self, run: StepRun, end: End, kind: str) -> None:
        """End the run; its token moves on."""

    @abstractmethod
    def _repeat(self, step: Step, failed: StepRun) -> None:
        """Begin a new run of the step of the ``failed`` run; a loop over a list runs only the items without success."""
