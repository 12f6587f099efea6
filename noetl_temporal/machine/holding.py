"""The part of a playbook's machine that people control: its pause, and failed step runs that are held until someone
decides (semantics.md 41, 42).

A held run counts as running: joins wait for it, and the other branches continue, including those that its failure would
stop. The timeout of the playbook is suspended meanwhile.
"""

from __future__ import annotations

from abc import abstractmethod

from noetl_compiler.graph import Graph, Json, Step
from noetl_temporal.machine.events import Event, PauseRequested, RetryRequested, SkipRequested, UnpauseRequested
from noetl_temporal.machine.state import Held, Pending, StepRun
from noetl_temporal.machine.steps.execution import Execution
from noetl_temporal.machine.steps.exits import leave_to_next_run
from noetl_temporal.machine.steps.holds import begin_hold, end_hold, forgive, hold_id, result_given
from noetl_temporal.machine.tasks.pipeline import End
from noetl_temporal.machine.waits.answering import Answering
from noetl_temporal.machine.waits.refusals import is_repeated, remember

__all__ = ["Holding"]


class Holding(Answering):
    """A machine whose steps may be held."""

    graph: Graph
    _execution: Execution

    def _take(self, event: Event) -> None:
        match event:
            case RetryRequested() | SkipRequested():
                self._decide_held(event)
            case PauseRequested(request_id=id_) | UnpauseRequested(request_id=id_) if id_:
                if not is_repeated(id_, self.state, ()):
                    remember(id_, self.state)
                    super()._take(event)
            case _:
                super()._take(event)

    @property
    def is_suspended(self) -> bool:
        """Whether the run is paused, or a step of it is held: its status is ``paused``."""
        return self.is_paused or bool(self.held_runs)

    @property
    def waits_for_people(self) -> bool:
        """Whether the run waits for a person, also to retry or skip a held step."""
        return super().waits_for_people or self.is_suspended

    @property
    def held_runs(self) -> list[StepRun]:
        """The held runs, in the order in which they began."""
        return [run for run in self.state.runs.values() if run.held is not None]

    def _emit_pause(self, type_: str, status: str, by: str, reason: str) -> None:
        path, parent = self.graph.source.path, self.state.playbook_id
        self._journal.emit(type_, path, "playbook", status, parent=parent, by=by or None, reason=reason or None)

    # ---- holding --------------------------------------------------------------------------------------------------

    def _is_to_hold(self, step: Step, end: End) -> bool:
        return end.status == "error" and step.hold is not None and self.state.stop is None

    def _begin_hold(self, step: Step, run: StepRun, end: End, kind: str) -> None:
        seconds = begin_hold(self._execution, step, run, end, kind)
        self._start_timer(hold_id(run), "hold", run.id, seconds, f"{step.name} is held")
        self._adjust_deadlines()

    def _is_stopped_clock(self, timer: Pending) -> bool:
        is_of_playbook = timer.kind == "deadline" and not timer.owner
        return super()._is_stopped_clock(timer) or (is_of_playbook and bool(self.held_runs))

    # ---- decisions ------------------------------------------------------------------------------------------------

    def _decide_held(self, event: RetryRequested | SkipRequested) -> None:
        """Apply a decision. One that is late or repeated has no effect."""
        run = self._runs.get_mutable(event.run)
        if run is None or run.held is None or is_repeated(event.request_id, self.state, ()):
            return
        remember(event.request_id, self.state)
        if isinstance(event, RetryRequested):
            self._retry(run, run.held, event)
        else:
            self._skip(run, run.held, event.data, event)

    def _retry(self, run: StepRun, held: Held, event: RetryRequested) -> None:
        step = self.graph.steps[run.step]
        end = self._end_hold(run, held, "retry", event)
        forgive(self._execution, step, run, end)
        self._remove_run(run)
        leave_to_next_run(self._execution, step, run, end, held.kind)
        self._repeat(step, run)

    def _skip(self, run: StepRun, held: Held, data: Json, event: SkipRequested) -> None:
        step = self.graph.steps[run.step]
        failed = self._end_hold(run, held, "skip", event)
        end = result_given(self._execution, step, run, held, data)
        if self._is_to_hold(step, end):
            self._begin_hold(step, run, end, held.kind)
            return
        forgive(self._execution, step, run, failed)
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
        """End the hold: the run has failed."""
        self._end_run(run, self._end_hold(run, held, action), held.kind)

    def _end_hold(
        self, run: StepRun, held: Held, action: str, event: RetryRequested | SkipRequested | None = None
    ) -> End:
        by, reason = ("", "") if event is None else (event.by, event.reason)
        end = end_hold(self._execution, self.graph.steps[run.step], run, held, action, by, reason)
        self._drop_timer(hold_id(run))
        self._adjust_deadlines()
        return end

    # ---- what a playbook's machine does ---------------------------------------------------------------------------

    @abstractmethod
    def _remove_run(self, run: StepRun) -> None:
        """Remove the run from those that joins wait for."""

    @abstractmethod
    def _end_run(self, run: StepRun, end: End, kind: str) -> None:
        """End the run; its token moves on."""

    @abstractmethod
    def _repeat(self, step: Step, failed: StepRun) -> None:
        """Begin the next run of the step; of a loop, with the items that did not succeed."""
