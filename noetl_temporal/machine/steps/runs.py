"""Runs of steps, and which of them waits for what.

How it works. A run of a step begins (entry.py), and then either a pipeline of its tasks runs or a loop does (loops.py).
While one does, the run waits for one id: that of a call, of a timer or of the loop. A fact about that id lets it go on,
until it is over and its token moves (exits.py, routes.py), which is told by Ended.
"""

from __future__ import annotations

from noetl_compiler import templates
from noetl_compiler.graph import Loop, Step
from noetl_temporal.machine.commands import Cancel
from noetl_temporal.machine.errors import ProtocolError
from noetl_temporal.machine.events import LoopFinished, TimerFired, ToolFinished
from noetl_temporal.machine.failing import error_outcome, template_outcome
from noetl_temporal.machine.loops.result import NO_ITEMS, loop_end
from noetl_temporal.machine.names import LOOP, assign
from noetl_temporal.machine.state import PipelineState, StepRun
from noetl_temporal.machine.steps.entry import TIMEOUT, emit_started, enter, is_admitted
from noetl_temporal.machine.steps.execution import Execution
from noetl_temporal.machine.steps.exits import leave, skip
from noetl_temporal.machine.steps.loops import emit_loop_end, loop_of
from noetl_temporal.machine.steps.routes import OK, Ended, add_failures
from noetl_temporal.machine.tasks.pipeline import End, Pipeline

__all__ = ["StepRuns"]


class StepRuns:
    """The steps of an execution that run."""

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._by_pending = {_pending(run): run.id for run in execution.state.runs.values()}

    def awaits(self, pending: str) -> bool:
        """Whether a call or loop of this id is in flight."""
        return pending in self._by_pending

    # ---- starting -------------------------------------------------------------------------------------------------

    def start(self, step: Step) -> Ended | None:
        """Begin a run of a step; Ended when it is over at once."""
        state = self._execution.state
        state.counts[step.name] = count = state.counts.get(step.name, 0) + 1
        run = StepRun(id=f"{step.name}#{count}", step=step.name, event_id=0, started=self._execution.journal.at)
        if not is_admitted(self._execution, step, run):
            return skip(self._execution, step, run)
        run.event_id = emit_started(self._execution, step, run)
        state.runs[run.id] = run
        try:
            return self._begin(step, run)
        except templates.TemplateFailure as failure:
            return self._leave(step, run, End("error", template_outcome(failure), None, failure.span or step.span))

    def _begin(self, step: Step, run: StepRun) -> Ended | None:
        enter(self._execution, step, run)
        if step.loop is not None:
            return self._begin_loop(step, step.loop, run)
        if not step.tasks:
            return self._leave(step, run, End("ok", OK, None, step.span))
        run.pipeline = PipelineState()
        pipeline = self._pipeline(step, run)
        pipeline.begin()
        return self._after(step, run, pipeline)

    def _begin_loop(self, step: Step, loop: Loop, run: StepRun) -> Ended | None:
        command = loop_of(self._execution, step, loop, run)
        if not command.input.items:
            return self._end_loop(step, run, loop_end(step, self._dialect, [], NO_ITEMS))
        self._by_pending[command.loop_id] = run.id
        self._execution.journal.send(command)
        return None

    # ---- facts ----------------------------------------------------------------------------------------------------

    def tool_finished(self, event: ToolFinished) -> Ended | None:
        """A call of a step's pipeline ended."""
        step, run = self._take(event.call_id)
        pipeline = self._pipeline(step, run)
        pipeline.tool_finished(event.report, event.cancelled)
        return self._after(step, run, pipeline)

    def timer_fired(self, event: TimerFired) -> Ended | None:
        """A delay of a pipeline is over, or a step's time; timers of what is gone mean nothing."""
        if event.timer_id in self._by_pending:
            step, run = self._take(event.timer_id)
            pipeline = self._pipeline(step, run)
            pipeline.timer_fired()
            return self._after(step, run, pipeline)
        late = self._execution.state.runs.get(event.timer_id.removesuffix(TIMEOUT))
        if late is None:
            return None
        late.timed_out = True
        return self._cancel(late)

    def loop_finished(self, event: LoopFinished) -> Ended:
        """A loop's own workflow ended."""
        step, run = self._take(event.loop_id)
        report = event.report
        run.loop_attempts = report.attempts
        end = loop_end(step, self._dialect, report.results, report.stats)
        try:
            for target, value in report.assigns:
                assign(self._execution.state, run, target, value)
        except templates.TemplateFailure as failure:
            end = end._replace(status="error", outcome={**end.outcome, **template_outcome(failure)})
        is_tolerant = step.loop is not None and step.loop.failure == "best_effort"
        add_failures(self._execution, report.failures, handled=is_tolerant)
        if report.status == "cancelled":
            end = end._replace(status="cancelled")
        return self._end_loop(step, run, end)

    def cancel_all(self) -> list[Ended]:
        """Ask everything that runs to stop; what only waits for a timer is over at once."""
        runs = list(self._execution.state.runs.values())
        return [ended for run in runs if (ended := self._cancel(run)) is not None]

    def _cancel(self, run: StepRun) -> Ended | None:
        pending = _pending(run)
        if run.pipeline is not None and run.pipeline.phase == "delay":
            self._execution.journal.send(Cancel(pending))
            self._by_pending.pop(pending, None)
            step = self._execution.graph.steps[run.step]
            return self._leave(step, run, End("cancelled", error_outcome("cancelled", "cancelled"), None, step.span))
        if pending:
            self._execution.journal.send(Cancel(pending))
        return None

    # ---- ending ---------------------------------------------------------------------------------------------------

    def _after(self, step: Step, run: StepRun, pipeline: Pipeline) -> Ended | None:
        if pipeline.end is not None:
            return self._leave(step, run, pipeline.end, pipeline.last_kind())
        self._by_pending[pipeline.state.pending] = run.id
        return None

    def _end_loop(self, step: Step, run: StepRun, end: End) -> Ended:
        emit_loop_end(self._execution, step, run, end)
        return self._leave(step, run, end, LOOP)

    def _leave(self, step: Step, run: StepRun, end: End, kind: str = "") -> Ended:
        return leave(self._execution, step, run, end, kind)

    # ---- what waits -----------------------------------------------------------------------------------------------

    @property
    def _dialect(self) -> str:
        return self._execution.graph.source.dialect

    def _pipeline(self, step: Step, run: StepRun) -> Pipeline:
        if run.pipeline is None:
            raise ProtocolError(f"{run.id} awaits no call")
        return Pipeline(self._execution.host(step, run), run.pipeline)

    def _take(self, pending: str) -> tuple[Step, StepRun]:
        run = self._execution.state.runs[self._by_pending.pop(pending)]
        return self._execution.graph.steps[run.step], run


def _pending(run: StepRun) -> str:
    return run.pipeline.pending if run.pipeline is not None else run.loop_id or ""
