"""Runs of steps: from admission to the arcs that lead on."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec.structs import replace

from noetl_compiler import templates
from noetl_compiler.graph import Graph, Json, Loop, Step
from noetl_temporal.machine.call import Outcome
from noetl_temporal.machine.calls import seconds_of
from noetl_temporal.machine.commands import Cancel, LoopInput, RunLoop, StartTimer
from noetl_temporal.machine.errors import ProtocolError
from noetl_temporal.machine.events import LoopFinished, TimerFired, ToolFinished
from noetl_temporal.machine.failing import error_outcome, failure_at, template_outcome
from noetl_temporal.machine.journal import Journal, abridged
from noetl_temporal.machine.loop_items import body_paths, in_flight, items_of
from noetl_temporal.machine.loop_result import NO_ITEMS, loop_end
from noetl_temporal.machine.names import LOOP, assign, record_view
from noetl_temporal.machine.pipeline import End, Pipeline
from noetl_temporal.machine.policy import allows
from noetl_temporal.machine.routing import Admission, Selection, admit, select
from noetl_temporal.machine.scope import call_names, event_names
from noetl_temporal.machine.state import PipelineState, PlaybookState, StepRecord, StepRun
from noetl_temporal.machine.step_host import StepHost
from noetl_temporal.machine.task_events import message_of

__all__ = ["Ended", "StepRuns"]

_OK: Outcome = {"status": "ok", "result": None}
_BOUNDARIES = {"completed": "step.done", "failed": "step.failed", "skipped": "step.skipped"}


class Ended(NamedTuple):
    """A run of a step is over; its token goes to ``targets``. ``fail_fast``: an unhandled failure that stops the
    others.
    """

    step: str
    targets: tuple[str, ...]
    fail_fast: bool = False


class StepRuns:
    """The steps that run, over the playbook's state."""

    def __init__(self, graph: Graph, execution_id: int, state: PlaybookState, journal: Journal) -> None:
        self._graph = graph
        self._execution_id = execution_id
        self._state = state
        self._journal = journal
        self._by_pending = {self._pending(run): run.id for run in state.runs.values()}

    def awaits(self, pending: str) -> bool:
        """Whether a call or loop of this id is in flight."""
        return pending in self._by_pending

    # ---- starting -------------------------------------------------------------------------------------------------

    def start(self, step: Step) -> Ended | None:
        """Begin a run of a step; Ended when it is over at once."""
        state = self._state
        state.counts[step.name] = count = state.counts.get(step.name, 0) + 1
        run = StepRun(id=f"{step.name}#{count}", step=step.name, event_id=0, started=self._journal.at)
        host = self._host(step, run)
        if step.admit and not self._admitted(step, host):
            return self._skip(step, run)
        run.event_id = self._journal.emit(
            "step.started",
            step.name,
            "step",
            "STARTED",
            parent=state.workflow_id,
            span=step.span,
            step_run_id=run.id,
            **self._routed(step),
        )
        state.runs[run.id] = run
        try:
            return self._begin(step, run)
        except templates.TemplateFailure as failure:
            return self._end(step, run, End("error", template_outcome(failure), None, failure.span or step.span))

    def _begin(self, step: Step, run: StepRun) -> Ended | None:
        host = self._host(step, run)
        args: dict[str, Json] = templates.render(step.args, host.scope()) or {}
        run.args = {**args, "input": args, "args": args} if args else {}
        self._enter(step, host)
        self._start_timeout(step, run, host)
        if step.loop is not None:
            return self._begin_loop(step, step.loop, run, host)
        if not step.tasks:
            return self._end(step, run, End("ok", _OK, None, step.span))
        run.pipeline = PipelineState()
        pipeline = Pipeline(self._host(step, run), run.pipeline)
        pipeline.begin()
        return self._after(step, run, pipeline)

    def _enter(self, step: Step, host: StepHost) -> None:
        """What the step sets on entering; every rule sees the names as they were before."""
        scope = host.scope(event_names("step.enter", step.name, None))
        assigns = [one for rule in step.enter if allows(rule.guard, "ok", scope) for one in rule.set]
        host.assign([(one.target, templates.render(one.value, scope)) for one in assigns])

    def _start_timeout(self, step: Step, run: StepRun, host: StepHost) -> None:
        seconds = seconds_of(step.timeout.total, host.scope()) if step.timeout else None
        if seconds is not None:
            self._journal.send(StartTimer(_timeout_id(run), seconds, f"{step.name} times out in {seconds:g}s"))

    def _admitted(self, step: Step, host: StepHost) -> bool:
        found: Admission = admit(step.admit, host.scope(event_names("step.enter", step.name, None)))
        self._journal.emit(
            "policy.admit.evaluated",
            step.name,
            "step",
            "COMPLETED",
            parent=self._state.workflow_id,
            allowed=found.allowed,
            rule=found.rule,
            indeterminate=list(found.indeterminate) or None,
        )
        return found.allowed

    def _routed(self, step: Step) -> dict[str, Json]:
        """What the final step's start says of failures that led there (failure-handling seed)."""
        unhandled = [failure.step for failure in self._state.failures if not failure.handled]
        if step.name != self._graph.final or not unhandled:
            return {}
        return {"routed_to_end": True, "original_failed_step": unhandled[0]}

    def _begin_loop(self, step: Step, loop: Loop, run: StepRun, host: StepHost) -> Ended | None:
        scope = host.scope()
        items, at_once = items_of(loop, scope), in_flight(loop, scope)
        self._state.loops += 1
        run.loop_event_id = self._journal.emit(
            "loop.started",
            step.name,
            LOOP,
            "STARTED",
            parent=run.event_id,
            span=loop.span,
            step_run_id=run.id,
            iterator={
                "iterator_name": loop.element,
                "total_count": len(items),
                "collection_size": len(items),
                "mode": loop.mode,
            },
        )
        run.loop_id = run.id.replace("#", "/")
        if not items:
            return self._end_loop(step, run, self._loop_end(step, [], NO_ITEMS))
        self._by_pending[run.loop_id] = run.id
        self._journal.send(
            RunLoop(
                run.loop_id,
                LoopInput(
                    execution_id=self._execution_id,
                    source=self._graph.source,
                    step=step,
                    items=items,
                    scope=templates.project(scope, body_paths(step)),
                    lane=self._state.loops,
                    event_id=run.loop_event_id,
                    loop_id=run.loop_id,
                    max_in_flight=at_once,
                ),
                f"{step.name}: {len(items)} items, {loop.mode}",
            )
        )
        return None

    def _skip(self, step: Step, run: StepRun) -> Ended:
        self._state.records[step.name] = StepRecord("skipped")
        self._journal.emit("step.skipped", step.name, "step", "SKIPPED", parent=self._state.workflow_id, span=step.span)
        return self._route(step, run, "skipped", _OK, "")

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
        late = self._state.runs.get(event.timer_id.removesuffix(":timeout"))
        if late is None:
            return None
        late.timed_out = True
        return self._cancel(late)

    def loop_finished(self, event: LoopFinished) -> Ended:
        """A loop's own workflow ended."""
        step, run = self._take(event.loop_id)
        report = event.report
        run.loop_attempts = report.attempts
        try:
            for target, value in report.assigns:
                assign(self._state, run, target, value)
        except templates.TemplateFailure as failure:
            return self._end(step, run, End("error", template_outcome(failure), None, step.span))
        self._failures(report.failures, handled=step.loop is not None and step.loop.failure == "best_effort")
        if report.status == "cancelled":
            return self._end(step, run, self._loop_end(step, report.results, report.stats)._replace(status="cancelled"))
        return self._end_loop(step, run, self._loop_end(step, report.results, report.stats))

    def _loop_end(self, step: Step, results: list[Json], stats: dict[str, int]) -> End:
        return loop_end(step, self._graph.source.dialect, results, stats)

    def cancel_all(self) -> list[Ended]:
        """Ask everything that runs to stop; what only waits for a timer is over at once."""
        return [ended for run in list(self._state.runs.values()) if (ended := self._cancel(run)) is not None]

    def _cancel(self, run: StepRun) -> Ended | None:
        pending = self._pending(run)
        if run.pipeline is not None and run.pipeline.phase == "delay":
            self._journal.send(Cancel(pending))
            self._by_pending.pop(pending, None)
            step = self._graph.steps[run.step]
            return self._end(step, run, End("cancelled", error_outcome("cancelled", "cancelled"), None, step.span))
        if pending:
            self._journal.send(Cancel(pending))
        return None

    # ---- ending ---------------------------------------------------------------------------------------------------

    def _after(self, step: Step, run: StepRun, pipeline: Pipeline) -> Ended | None:
        if pipeline.end is not None:
            return self._end(step, run, pipeline.end, pipeline.last_kind())
        self._by_pending[pipeline.state.pending] = run.id
        return None

    def _end_loop(self, step: Step, run: StepRun, end: End) -> Ended:
        failed = end.status == "error"
        self._journal.emit(
            "loop.failed" if failed else "loop.done",
            step.name,
            LOOP,
            "FAILED" if failed else "COMPLETED",
            parent=run.loop_event_id,
            started=run.started,
            error=message_of(end.outcome),
            stats=end.outcome["meta"]["stats"],
            step_run_id=run.id,
        )
        return self._end(step, run, end, LOOP)

    def _end(self, step: Step, run: StepRun, end: End, kind: str = "") -> Ended:
        if run.timed_out and end.status == "cancelled":
            end = End(
                "error",
                error_outcome("timeout", f"step {step.name!r} did not end in its time"),
                None,
                step.span,
            )
        end = self._completed(step, run, end, kind) if end.status == "ok" else end
        status = {"ok": "completed", "error": "failed", "cancelled": "cancelled"}[end.status]
        self._record(step, run, end, kind, status)
        self._emit_end(step, run, end, status)
        del self._state.runs[run.id]
        if step.timeout is not None:
            self._journal.send(Cancel(_timeout_id(run)))
        if end.status == "cancelled":
            return Ended(step.name, (self._graph.final,))
        return self._route(step, run, status, end.outcome, kind, end)

    def _completed(self, step: Step, run: StepRun, end: End, kind: str) -> End:
        """The step's own result and ``set``; a template without value fails the step after all."""
        host = self._host(step, run)
        view = record_view(self._record(step, run, end, kind, "completed"))
        final: Outcome = {**end.outcome, "page": None}
        names = {
            **self._outcome_names(step, kind, end.outcome),
            "result": self._outcome_names(step, kind, final)["result"],
            step.name: view,
            "_prev": view,
        }
        try:
            if step.result is not None:
                end = end._replace(outcome={**end.outcome, "result": templates.render(step.result, host.scope(names))})
                self._state.records[step.name].outcome = end.outcome
            scope = host.scope(names)
            host.assign([(one.target, templates.render(one.value, scope)) for one in step.set])
        except templates.TemplateFailure as failure:
            return End("error", template_outcome(failure), None, failure.span or step.span)
        return end

    def _outcome_names(self, step: Step, kind: str, outcome: Outcome) -> dict[str, Any]:
        return call_names(self._graph.source.dialect, step.name, kind, outcome)

    def _record(self, step: Step, run: StepRun, end: End, kind: str, status: Any) -> StepRecord:
        """Attempts and seconds add up over the runs of a step; everything else is the last run's."""
        pipeline = run.pipeline
        if run.before is None:
            run.before = self._state.records.get(step.name) or StepRecord("running")
        record = self._state.records[step.name] = StepRecord(
            status=status,
            kind=kind,
            outcome=end.outcome,
            tasks=pipeline.records if pipeline else {},
            attempts=run.before.attempts + (pipeline.attempts if pipeline else run.loop_attempts),
            duration=run.before.duration + (self._journal.at - run.started) / 1000,
        )
        return record

    def _emit_end(self, step: Step, run: StepRun, end: End, status: str) -> None:
        self._journal.emit(
            {"completed": "step.done", "failed": "step.failed", "cancelled": "step.cancelled"}[status],
            step.name,
            "step",
            status.upper(),
            parent=run.event_id,
            started=run.started,
            result=abridged(end.outcome.get("result")) if status == "completed" else None,
            error=message_of(end.outcome),
            span=end.span if status == "failed" else None,
            step_run_id=run.id,
            task=end.task if status == "failed" else None,
        )

    def _route(
        self, step: Step, run: StepRun, status: str, outcome: Outcome, kind: str, end: End | None = None
    ) -> Ended:
        """Choose the arcs, apply their ``set``, and say what became of a failure."""
        failed = status == "failed"
        if step.name == self._graph.final:
            return self._failed(step, end, (), handled=False) if failed and end else Ended(step.name, ())
        host = self._host(step, run)
        names: dict[str, Any] = {
            **self._outcome_names(step, kind, outcome),
            **event_names(self._boundary(step, status), step.name, outcome),
        }
        scope = host.scope(names)
        try:
            chosen = select(step.route, "error" if failed else "ok", scope)
            self._emit_routes(step, run, chosen)
            host.assign([(one.target, templates.render(one.value, scope)) for arc in chosen.arcs for one in arc.set])
        except templates.TemplateFailure as failure:
            return self._failed(step, End("error", template_outcome(failure), None, failure.span or step.span), ())
        targets = tuple(arc.to for arc in chosen.arcs)
        if failed and end is not None:
            return self._failed(step, end, targets, handled=bool(targets))
        if not targets and step.route.on_no_match == "end":
            targets = (self._graph.final,)
        return Ended(step.name, targets)

    def _boundary(self, step: Step, status: str) -> str:
        name = _BOUNDARIES[status]
        return name.replace("step.", "loop.") if step.loop is not None and status != "skipped" else name

    def _emit_routes(self, step: Step, run: StepRun, chosen: Selection) -> None:
        self._journal.emit(
            "next.evaluated",
            step.name,
            "step",
            "COMPLETED",
            parent=run.event_id or self._state.workflow_id,
            mode=step.route.mode,
            arcs=list(chosen.evaluated),
            chosen=[arc.to for arc in chosen.arcs],
            step_run_id=run.id,
        )

    def _failed(self, step: Step, end: End, targets: tuple[str, ...], handled: bool = False) -> Ended:
        """A failure that no arc leads on from goes to the final step (semantics.md 4)."""
        iterations = any(
            failure.step == step.name and failure.iteration is not None for failure in self._state.failures
        )
        if handled:
            self._state.failures = [
                _handled(failure) if failure.step == step.name else failure for failure in self._state.failures
            ]
        if not iterations:
            failure = failure_at(self._graph.source, step.name, end.outcome, end.span, end.task)
            self._failures((failure,), handled)
        stops = not handled and (step.failure or self._graph.failure) == "fail_fast"
        return Ended(step.name, targets or (self._graph.final,), stops)

    def _failures(self, failures: tuple[Any, ...], handled: bool) -> None:
        self._state.failures.extend(_handled(failure) if handled else failure for failure in failures)

    # ---- what came of it ------------------------------------------------------------------------------------------

    def result(self, leads: list[str]) -> Json:
        """The final step's result; where it has none, the result of the step that led to it, or of each by name."""
        records = self._state.records
        final = records.get(self._graph.final)
        if final is not None and final.outcome.get("result") is not None:
            return final.outcome["result"]
        found = {name: records[name].outcome.get("result") for name in leads if name in records}
        return next(iter(found.values())) if len(found) == 1 else found or None

    def summary(self) -> dict[str, dict[str, Json]]:
        """name -> {status, attempts, duration_seconds}, in the playbook's order."""
        records = self._state.records
        return {
            name: {
                "status": records[name].status,
                "attempts": records[name].attempts,
                "duration_seconds": records[name].duration,
            }
            for name in self._graph.steps
            if name in records
        }

    def _host(self, step: Step, run: StepRun) -> StepHost:
        return StepHost(self._journal, self._graph.source, self._execution_id, self._state, step, run)

    def _pipeline(self, step: Step, run: StepRun) -> Pipeline:
        if run.pipeline is None:
            raise ProtocolError(f"{run.id} awaits no call")
        return Pipeline(self._host(step, run), run.pipeline)

    def _take(self, pending: str) -> tuple[Step, StepRun]:
        run = self._state.runs[self._by_pending.pop(pending)]
        return self._graph.steps[run.step], run

    def _pending(self, run: StepRun) -> str:
        return run.pipeline.pending if run.pipeline is not None else run.loop_id or ""


def _handled(failure: Any) -> Any:
    return replace(failure, handled=True)


def _timeout_id(run: StepRun) -> str:
    return f"{run.id}:timeout"
