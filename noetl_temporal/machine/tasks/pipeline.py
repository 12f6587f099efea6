"""One task pipeline: the tasks of a step, or of one iteration of its loop.

How it works. A pipeline is always in one phase (state.PipelineState), and moves as this table says:

    ready ── begin_call ────► call     the next task's call, a jump's, the next page's, or that of task-level sinks
    call  ── tool_finished ─► ready    more to call
                            └► delay    more to call, later
    delay ── delay_over ────► ready
    any   ──────────────────► done     ``end`` tells ok, error or cancelled

Only its engine calls ``begin_call``, at the one place where calls begin, or ``stop`` there instead (engine.py).

*Settling* a finished call (call_result.py) is the heart: its result is recorded and what it sets applied, then the
rule's action is taken here. ``retry`` is never seen, except for a call whose worker was lost: it happened inside the
activity.

Every page of a paginating task is a task execution of its own: its own call, key, events and attempts
(semantics.md 18).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from noetl_compiler import templates
from noetl_compiler.graph import Rule, Span
from noetl_compiler.language import defaults
from noetl_temporal.machine import json_merge, quantities
from noetl_temporal.machine.call import PlainOutcome, ToolReport
from noetl_temporal.machine.errors import ProtocolError
from noetl_temporal.machine.failures import error_outcome, template_outcome
from noetl_temporal.machine.state import PipelineState, TaskRecord
from noetl_temporal.machine.stored import with_result
from noetl_temporal.machine.tasks import guarded_tasks
from noetl_temporal.machine.tasks.call_result import Settled, Settling, last_page
from noetl_temporal.machine.tasks.calls import store_call, summary, timer_id, tool_call
from noetl_temporal.machine.tasks.events import TaskEvents
from noetl_temporal.machine.tasks.host import Host
from noetl_temporal.machine.tasks.names import PipelineNames
from noetl_temporal.machine.tasks.plan import TaskPlan
from noetl_temporal.machine.tasks.rendering import RenderedTask

__all__ = ["MAX_EXECUTIONS", "End", "Pipeline"]

MAX_EXECUTIONS = 1_000_000
"""Task executions of one pipeline (semantics.md 20)."""

FOLLOWS: Mapping[str, tuple[str, ...]] = {
    "ready": ("call", "done"),
    "call": ("ready", "delay", "done"),
    "delay": ("ready", "done"),
    "done": (),
}
"""Phase -> the phases that may follow it."""


class End(NamedTuple):
    """How a pipeline ended; ``task`` is the label that failed and ``span`` its place."""

    status: Literal["ok", "error", "cancelled"]
    outcome: PlainOutcome
    task: str | None
    span: Span


class Pipeline:
    """Runs a step's tasks. ``end`` is set when it is over, ``delay`` (seconds) when it waits."""

    def __init__(self, host: Host, state: PipelineState) -> None:
        self.host = host
        self.state = state
        self.end: End | None = None
        self.delay = 0.0
        self.delay_summary = ""
        self._names = PipelineNames(host, state)
        self._events = TaskEvents(host, state)
        self._settling = Settling(host, state, self._names)

    # ---- facts ----------------------------------------------------------------------------------------------------

    def begin_call(self) -> None:
        """Make the next call; the pipeline ends instead when no task is left or the call has no value."""
        try:
            if self.state.storing:
                self._begin_store(self._plan())
            else:
                self._begin_task()
        except templates.TemplateFailure as failure:
            if self.state.is_open:
                self._events.ended(self._plan(), "FAILED", template_outcome(failure))
            self._end("error", template_outcome(failure), failure.span)

    def tool_finished(self, report: ToolReport, cancelled: bool) -> None:
        """The awaited call ended; ``cancelled`` because this run asked for it."""
        state, plan = self.state, self._plan()
        state.attempts += max(1, len(report.attempts))
        if cancelled:
            self._events.ended(plan, "CANCELLED", report.outcome)
            self._end("cancelled", report.outcome)
        elif state.storing:
            self._stored(plan, report)
        else:
            self._settle(plan, report)

    def delay_over(self) -> None:
        """The awaited delay is over: the next page, or the same task after a loss or a jump."""
        self._move("ready")

    def stop(self) -> None:
        """End instead of the next call. What needs no further call has ended as it did; a failure stays one."""
        state = self.state
        if state.failure is not None:
            state.index = state.failed
            self._end("error", state.failure)
            return
        try:
            if not state.storing and not self._find_task():
                self._run_out()
                return
        except templates.TemplateFailure as failure:
            self._end("error", template_outcome(failure), failure.span)
            return
        outcome = error_outcome("cancelled", "cancelled before its next call")
        if state.is_open:
            self._events.ended(self._plan(), "CANCELLED", outcome)
        self._end("cancelled", outcome)

    # ---- calling --------------------------------------------------------------------------------------------------

    def _plan(self) -> TaskPlan:
        return self.host.plan.tasks[self.state.index]

    def _begin_task(self) -> None:
        """Call the next task that is to run. Raises TemplateFailure."""
        state = self.state
        if not self._find_task():
            self._run_out()
            return
        state.executions += 1
        if state.executions > MAX_EXECUTIONS:
            self._end("error", error_outcome("budget", f"more than {MAX_EXECUTIONS:,} task executions in one step"))
            return
        self._call(self._plan())

    def _find_task(self) -> bool:
        """Move on to the next task that is to run, if one is left. Raises TemplateFailure."""
        state, plans = self.state, self.host.plan.tasks
        while state.index < len(plans) and not self._runs(plans[state.index]):
            state.index += 1
        return state.index < len(plans)

    def _move(self, phase: Literal["ready", "call", "delay", "done"]) -> None:
        if phase not in FOLLOWS[self.state.phase]:
            raise ProtocolError(f"a pipeline that is {self.state.phase} cannot become {phase}")
        self.state.phase = phase

    def _runs(self, plan: TaskPlan) -> bool:
        return guarded_tasks.runs(plan.task.guard, self.state, lambda: self.host.scope(self._names.of_task()))

    def _run_out(self) -> None:
        """End: no task is left."""
        state = self.state
        if state.failure is None:
            self._end("ok", self._last_outcome())
        else:
            state.index = state.failed
            self._end("error", state.failure)

    def _call(self, plan: TaskPlan) -> None:
        state, host = self.state, self.host
        bound = {**self._names.bound(plan.task), **state.bound}
        names = host.scope({**bound, "input": bound, "args": bound}, self._names.of_task())
        rendered = RenderedTask(plan.task, names, bound)
        if state.config is not None:
            rendered.config = state.config
        state.config = rendered.config
        state.event_id = self._events.started(plan)
        state.started = host.journal.at
        call = tool_call(host, plan, state, rendered, names)
        self._move("call")
        state.pending = call.id
        host.journal.call(call, plan.task.queue, summary(host, plan, call.page))

    # ---- settling -------------------------------------------------------------------------------------------------

    def _settle(self, plan: TaskPlan, report: ToolReport) -> None:
        try:
            self._act(plan, self._settling.settle(plan, report))
        except templates.TemplateFailure as failure:
            self._events.ended(plan, "FAILED", template_outcome(failure))
            self._end("error", template_outcome(failure), failure.span)

    def _act(self, plan: TaskPlan, settled: Settled) -> None:
        do, rule, outcome, names, delay = settled
        match do:
            case "again" if rule is not None and self._more_pages(rule, names):
                self._next_page(plan, rule, outcome, names)
            case "jump" if rule is not None and rule.to is not None:
                self._jump(plan, rule, rule.to, outcome, self._delay_of(rule, names))
            case "retry" if rule is not None:
                self.state.calls += 1
                self._events.ended(plan, "FAILED", outcome)
                self._go(rule, delay)
            case "fail":
                self._fail(plan, outcome)
            case "again" if outcome["status"] == "error":
                self._fail(plan, outcome)
            case _:
                self._sequence_done(plan, outcome, stop=do == "break")

    def _jump(self, plan: TaskPlan, rule: Rule, to: str, outcome: PlainOutcome, delay: float) -> None:
        self._events.ended(plan, "COMPLETED", outcome)
        self._leave_task()
        self.state.index = self._index_of(to)
        self._go(rule, delay)

    def _more_pages(self, rule: Rule, names: Mapping[str, Any]) -> bool:
        if rule.attempts is None:
            return self.state.page < defaults.PAGES
        return self.state.page < quantities.count(templates.render(rule.attempts, names), "attempts", rule.span)

    def _fail(self, plan: TaskPlan, outcome: PlainOutcome) -> None:
        """The task failed, and with it the pipeline: at once, or when the asides are done that answer to it."""
        state = self.state
        self._events.ended(plan, "FAILED", outcome)
        if guarded_tasks.may_follow(self.host.step.tasks, state.index):
            state.records[plan.task.label] = TaskRecord(plan.task.kind, outcome)
            state.failure = outcome
            state.failed = state.index
            self._advance(stop=False)
        elif state.failure is not None:
            self._run_out()
        else:
            self._end("error", outcome)

    def _next_page(self, plan: TaskPlan, rule: Rule, outcome: PlainOutcome, names: Mapping[str, Any]) -> None:
        delay = self._delay_of(rule, names)
        if rule.patch is not None:
            self.state.config = json_merge.merged(self.state.config, templates.render(rule.patch, names))
        if rule.rebind is not None:
            self.state.bound = {**self.state.bound, **templates.render(rule.rebind, names)}
            self.state.config = self.state.config if rule.patch is not None else None
        self.state.done_id = self._events.ended(plan, "COMPLETED", outcome)
        self.state.page += 1
        self.state.calls = 0
        self._go(rule, delay)

    def _delay_of(self, rule: Rule, names: Mapping[str, Any]) -> float:
        if rule.delay is None:
            return 0.0
        found = templates.render(rule.delay, names)
        return 0.0 if found is None else quantities.seconds(found, "delay", rule.span)

    def _go(self, rule: Rule, delay: float) -> None:
        """Call again or jump, after so many seconds."""
        label = self.host.step.tasks[self.state.index].label
        if delay <= 0:
            self._move("ready")
            return
        self._move("delay")
        self.state.pending = timer_id(self.host, self._plan(), self.state)
        self.delay, self.delay_summary = delay, f"{rule.do} {label} in {delay:g} s"

    # ---- ending a task --------------------------------------------------------------------------------------------

    def _sequence_done(self, plan: TaskPlan, outcome: PlainOutcome, stop: bool) -> None:
        """The task's last page is in. Its result is what was collected; sinks of level task come now."""
        state = self.state
        if state.has_collected:
            page = last_page(self.host, plan.task, outcome)
            gathered = {**with_result(outcome, state.collected), "status": "ok", "page": page}
            state.records[plan.task.label] = TaskRecord("collected", gathered)
        if outcome["status"] == "ok" and plan.task_sinks:
            state.storing, state.is_last = True, stop
            self._move("ready")
        else:
            self._task_done(plan, outcome)
            self._advance(stop)

    def _task_done(self, plan: TaskPlan, outcome: PlainOutcome) -> None:
        sequence = None
        if plan.paginates:
            how = plan.collect
            sequence = {"pages": self.state.page, "strategy": how.strategy if how else None}
        status = "COMPLETED" if outcome["status"] == "ok" else "FAILED"
        self.state.done_id = self._events.ended(plan, status, outcome, sequence)

    def _begin_store(self, plan: TaskPlan) -> None:
        host, state = self.host, self.state
        call = store_call(host, plan, state, host.scope(self._names.of_task()), state.records[plan.task.label].outcome)
        self._move("call")
        state.pending = call.id
        host.journal.call(call, call.kind, f"{summary(host, plan, None)} sink")

    def _stored(self, plan: TaskPlan, report: ToolReport) -> None:
        if report.outcome["status"] == "ok":
            self.state.storing = False
            self._task_done(plan, self.state.records[plan.task.label].outcome)
            self._advance(stop=self.state.is_last)
        else:
            self._events.ended(plan, "FAILED", report.outcome)
            self._end("error", report.outcome)

    def _advance(self, stop: bool) -> None:
        """Go on to the next task. Without any the pipeline ends now: an end needs no leave to begin a call."""
        self._leave_task()
        self.state.index = len(self.host.step.tasks) if stop else self.state.index + 1
        if self.state.index < len(self.host.step.tasks):
            self._move("ready")
        else:
            self._run_out()

    def _leave_task(self) -> None:
        """Attempts, pages and what they gathered belong to one task execution."""
        state = self.state
        state.page, state.calls, state.config, state.done_id, state.bound = 1, 0, None, None, {}
        state.collected, state.has_collected = None, False

    def _end(
        self, status: Literal["ok", "error", "cancelled"], outcome: PlainOutcome, span: Span | None = None
    ) -> None:
        tasks, state = self.host.step.tasks, self.state
        task = tasks[state.index] if state.index < len(tasks) else None
        self._move("done")
        state.pending = ""
        place = span or (task.span if task else self.host.step.span)
        self.end = End(status, outcome, task.label if task else None, place)

    def _index_of(self, label: str) -> int:
        return next(index for index, task in enumerate(self.host.step.tasks) if task.label == label)

    def _last_outcome(self) -> PlainOutcome:
        last = self.state.last
        return self.state.records[last].outcome if last is not None else {"status": "ok", "result": None}

    def last_kind(self) -> str:
        """The tool kind under which the pipeline's result is seen."""
        last = self.state.last
        return self.state.records[last].kind if last is not None else ""
