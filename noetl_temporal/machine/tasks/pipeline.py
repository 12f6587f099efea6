"""One task pipeline: the tasks of a step, or of one iteration of its loop.

How it works. A pipeline is always in one phase (state.PipelineState), and moves as this table says:

    ready ── begin_call ────► call     the next task's call, a jump's, the next page's, or that of task-level sinks
    call  ── tool_finished ─► ready    more to call
                            └► delay    more to call, later
    delay ── delay_ended ───► ready
    ready ── begin_call ────► wait     a task that waits for a time, a signal or a person
    call  ── tool_finished ─► wait     a retry that waits for a signal
    ready ── begin_call ────► answered a call that is refused, because its circuit is open
    wait  ── wait_ended ────► answered ── begin_call ──► as after a call
    any   ──────────────────► done     ``end`` tells ok, error or cancelled

Only its engine calls ``begin_call``, at the one place where calls begin, or ``stop`` there instead (engine.py).

``_apply_report`` does everything that follows a finished call, in order. The activity has reported which rule ended the
call; call_result.py computes the consequences. Retries happen inside the activity, so ``retry`` occurs here only for a
call whose worker was lost.

task_executions.py begins and ends the task executions. Only these two files change the state; the others (names.py,
events.py, calls.py, call_result.py) only read it.

Every page of a paginating task is a task execution of its own: its own call, key, events and attempts
(semantics.md 18).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from noetl_compiler import templates
from noetl_compiler.graph import Json, Rule, Task
from noetl_compiler.graph.contents import merge_json
from noetl_compiler.language import defaults
from noetl_temporal.machine.call import PlainOutcome, ToolReport
from noetl_temporal.machine.errors import ProtocolError
from noetl_temporal.machine.failures import error_outcome, template_outcome
from noetl_temporal.machine.policy import Decision, RuleError, decide, failure_of
from noetl_temporal.machine.records import TaskRecord
from noetl_temporal.machine.state import TaskProgress
from noetl_temporal.machine.stored import with_result
from noetl_temporal.machine.tasks import breaker, guarded_tasks
from noetl_temporal.machine.tasks.call_result import (
    Ruling,
    attempt_outcome,
    default_ruling,
    last_page,
    replaces_error,
    rule_failure,
    rule_warnings,
    ruling_of,
    with_rule_message,
    with_rule_result,
)
from noetl_temporal.machine.tasks.calls import timer_id
from noetl_temporal.machine.tasks.collect import pages_summary, truncation_warning, with_page
from noetl_temporal.machine.tasks.events import emit_decided, warn_of_result
from noetl_temporal.machine.tasks.failed_line import failure_span
from noetl_temporal.machine.tasks.plan import TaskPlan
from noetl_temporal.machine.tasks.rendering import delay_of, limit_of, seconds_of
from noetl_temporal.machine.tasks.selecting import with_selected
from noetl_temporal.machine.tasks.task_executions import End, TaskExecutions
from noetl_temporal.machine.tasks.waits import WaitEnd, emit_wait_ended, failure_without_signal, retry_wait
from noetl_temporal.machine.waits.wait import Wait

__all__ = ["Pipeline"]


class Pipeline(TaskExecutions):
    """Runs the tasks of a step."""

    # ---- facts ------------------------------------------------------------------------------------------------------

    def begin_call(self) -> None:
        """Make the next call. The pipeline ends instead if no task is left or the call cannot be rendered."""
        try:
            if self.state.phase == "answered":
                self._take_answer()
            elif self.state.progress.is_storing:
                self._begin_store(self._plan())
            else:
                self._begin_task()
        except templates.TemplateFailure as failure:
            if self.state.progress.is_open:
                self._task_ended(self._plan(), "FAILED", template_outcome(failure))
            self._end("error", template_outcome(failure), failure.span)

    def tool_finished(self, report: ToolReport, cancelled: bool) -> None:
        """Apply the report of the pending call; ``cancelled``: this run cancelled the call."""
        state, plan = self.state, self._plan()
        attempts = max(1, len(report.attempts))
        state.attempts += attempts
        state.retries += attempts - 1 + (state.progress.earlier_calls > 0 and not state.progress.is_storing)
        if cancelled:
            if plan.circuit is not None:
                breaker.record_cancellation(self.host, state, plan)
            self._task_ended(plan, "CANCELLED", report.outcome)
            self._end("cancelled", report.outcome)
        elif state.progress.is_storing:
            self._apply_stored(plan, report)
        else:
            if plan.circuit is not None:
                breaker.record_end(self.host, state, plan, report.outcome)
            self._process_report(plan, report)

    def delay_ended(self) -> None:
        """End the delay: the next call may begin."""
        self._enter_phase("ready")

    def wait_ended(self, wait: Wait, ending: WaitEnd, outcome: PlainOutcome | None) -> None:
        """Apply the end of a wait. It has no outcome if the run stops."""
        self.opened = None
        emit_wait_ended(self.host, wait, ending, outcome)
        self.state.answer = outcome
        self.state.attempts += 1 if outcome is not None and self.state.progress.is_open else 0
        self._enter_phase("ready" if outcome is None else "answered")

    def stop(self) -> None:
        """End instead of making the next call. If no further call is needed, the outcome stays as it is."""
        state = self.state
        if state.phase == "answered":
            self._take_answer(calls=False)
            if self.end is not None:
                return
            if self.opened is not None:
                self.wait_ended(self.opened, "cancelled", None)
        if state.failure is not None:
            state.index = state.failed_index
            self._end("error", state.failure)
            return
        try:
            if not state.progress.is_storing and not self._find_task():
                self._end_after_last_task()
                return
        except templates.TemplateFailure as failure:
            self._end("error", template_outcome(failure), failure.span)
            return
        outcome = error_outcome("cancelled", "cancelled before its next call")
        if state.progress.is_open:
            self._task_ended(self._plan(), "CANCELLED", outcome)
        self._end("cancelled", outcome)

    # ---- finished calls ---------------------------------------------------------------------------------------------

    def _take_answer(self, *, calls: bool = True) -> None:
        """Continue after a wait of the task itself or of a retry. Without ``calls`` no call begins."""
        state, plan, outcome = self.state, self._plan(), self.state.answer
        state.answer = None
        if outcome is None:
            raise ProtocolError("a wait was answered with nothing")
        if state.progress.is_open:
            self._process_report(plan, ToolReport(outcome, is_decided=False))
        elif outcome["status"] == "error":
            self._fail_task(plan, failure_without_signal(state.records[plan.task.label].outcome, outcome))
        else:
            self._enter_phase("ready")
            if calls:
                self._begin_task()

    def _process_report(self, plan: TaskPlan, report: ToolReport) -> None:
        """Record the outcome of a finished call, apply what it sets, and take the action of its rule."""
        try:
            self._apply_report(plan, report)
        except templates.TemplateFailure as failure:
            self._task_ended(plan, "FAILED", template_outcome(failure))
            self._end("error", template_outcome(failure), failure.span)

    def _apply_report(self, plan: TaskPlan, report: ToolReport) -> None:
        """See ``_process_report``. Templates see the values before all of these assignments. Raises TemplateFailure."""
        task, profile = plan.task, self.host.names
        outcome = attempt_outcome(report, self.state.progress.event_id)
        if task.output is not None:
            outcome = with_selected(task.output, task.kind, outcome)
        if "meta" in outcome:
            warn_of_result(self.host, plan, outcome)
        if report.rule_failure is not None:
            self._record_outcome(plan, outcome, report)
            raise rule_failure(report.rule_failure, task)
        if task.policy is None:
            ruling = default_ruling(outcome)
        elif report.is_decided:
            ruling = ruling_of(task.policy, Decision(None, report.rule, 0.0, report.exhausted), outcome)
        else:
            decision = self._evaluate_rules(plan, report, outcome)
            report = replace(report, warnings=decision.warnings)
            ruling = ruling_of(task.policy, decision, outcome)
        self._record_outcome(plan, outcome, report)
        if ruling.rule is not None or report.warnings:
            for warning in rule_warnings(task, ruling, outcome, report, profile):
                self.host.warn(warning.message, warning.span)
        names = self._apply_sets(plan, ruling, outcome, report)
        if ruling.rule is not None:
            outcome = self._apply_rule_result(task, ruling, ruling.rule, outcome, names)
        self._take_action(plan, ruling, report, outcome, names)

    def _apply_rule_result(
        self, task: Task, ruling: Ruling, rule: Rule, outcome: PlainOutcome, names: Mapping[str, Any]
    ) -> PlainOutcome:
        """Return the outcome with the result or the error message of its rule. A result is recorded."""
        new_outcome = with_rule_result(task, rule, outcome, names, self.host.names)
        if new_outcome is not outcome:
            is_replaced = replaces_error(ruling, outcome)
            recorded = {**new_outcome, "status": "ok"} if is_replaced else new_outcome
            self.state.records[task.label] = replace(self.state.records[task.label], outcome=recorded)
            if is_replaced and task.guard is None:
                self.state.last_success = task.label
        return with_rule_message(ruling.do, rule, new_outcome, names)

    def _evaluate_rules(self, plan: TaskPlan, report: ToolReport, outcome: PlainOutcome) -> Decision:
        """Evaluate the rules for a call without a decision of its activity. A retry is a new call."""
        task, attempts = plan.task, self._attempts(report)
        names = self._names.scope(self._names.outcome_names_of(task, outcome, attempts))
        try:
            decision = decide(plan.rules or (), outcome["status"], names, attempts)
        except RuleError as error:
            raise rule_failure(failure_of(error), task) from error
        emit_decided(self.host, self.state, plan, decision)
        return decision

    def _attempts(self, report: ToolReport) -> int:
        """Return the number of calls that the task has made, including this one."""
        if report.is_decided:
            return report.calls
        return self.state.progress.earlier_calls + report.counts.used + 1

    def _record_outcome(self, plan: TaskPlan, outcome: PlainOutcome, report: ToolReport) -> None:
        """Record the outcome under the label of the task, after a success as the last one, too. Collect the page."""
        state, task, collect = self.state, plan.task, plan.collect
        state.records[task.label] = TaskRecord(task.kind, outcome, max(1, self._attempts(report)), state.progress.page)
        if task.guard is None:
            state.subject = task.label
        if outcome["status"] != "ok" or task.guard is not None:
            return
        state.last_success = task.label
        if collect is not None:
            progress = state.progress
            progress.collected, progress.has_collected = with_page(collect, progress.collected, task, outcome), True

    def _apply_sets(
        self, plan: TaskPlan, ruling: Ruling, outcome: PlainOutcome, report: ToolReport
    ) -> Mapping[str, Any]:
        """Apply the ``set`` of the call, of the task after a success, and of its rule. Returns the names that the rule
        sees, none without a rule.
        """
        tool_sets: dict[str, Json] | None = outcome.get("set")
        if tool_sets:
            self.host.assign([(f"ctx.{name}", value) for name, value in tool_sets.items()])
        sets = (plan.task.set if outcome["status"] == "ok" else ()) + (ruling.rule.set if ruling.rule else ())
        if not sets and ruling.rule is None:
            return {}
        names = self._names.outcome_scope(plan, outcome, self._attempts(report))
        self.host.assign([(assign.target, templates.render(assign.value, names)) for assign in sets])
        return names

    # ---- the actions of rules ---------------------------------------------------------------------------------------

    def _take_action(
        self, plan: TaskPlan, ruling: Ruling, report: ToolReport, outcome: PlainOutcome, names: Mapping[str, Any]
    ) -> None:
        do, rule, delay = ruling.do, ruling.rule, ruling.delay
        match do:
            case "continue":
                self._last_page_ended(plan, outcome, stop=False)
            case "break":
                self._last_page_ended(plan, outcome, stop=True)
            case "again" if rule is not None and self.state.progress.page < limit_of(rule, names, defaults.PAGES):
                self._begin_next_page(plan, rule, outcome, names)
            case "jump" if rule is not None and rule.to is not None:
                self._jump(plan, rule, rule.to, outcome, delay_of(rule, names))
            case "retry" | "wait" if rule is not None and rule.wait_for is not None:
                self._wait_to_retry(plan, rule, report, outcome, names)
            case "retry" if rule is not None:
                self.state.progress.earlier_calls += 1
                self._task_ended(plan, "FAILED", outcome)
                self._continue_after_delay(rule, delay)
            case "fail":
                self._fail(plan, outcome)
            case "again" if outcome["status"] == "error":
                self._fail(plan, outcome)
            case "again" if rule is not None:
                self.state.progress.is_truncated = True
                self.host.warn(truncation_warning(plan.task.label, self.state.progress), rule.span)
                self._last_page_ended(plan, outcome, stop=False)
            case _:
                raise ProtocolError(f"the rule of {plan.task.label} has the unknown action {do!r}")

    def _wait_to_retry(
        self, plan: TaskPlan, rule: Rule, report: ToolReport, outcome: PlainOutcome, names: Mapping[str, Any]
    ) -> None:
        """Wait for the signal before the next call, unless no attempts are left."""
        state, limit = self.state, limit_of(rule, names, defaults.ATTEMPTS)
        state.progress.earlier_calls += max(1, report.calls)
        if state.progress.earlier_calls >= limit:
            self._fail(plan, outcome)
            return
        seconds = seconds_of(rule.timeout, names, "timeout")
        self._task_ended(plan, "FAILED", outcome)
        self._begin_wait(retry_wait(self.host, plan, state, rule, seconds))

    def _jump(self, plan: TaskPlan, rule: Rule, to: str, outcome: PlainOutcome, delay: float) -> None:
        self._task_ended(plan, "COMPLETED", outcome)
        self.state.progress = TaskProgress()
        self.state.index = self._index_of(to)
        self._continue_after_delay(rule, delay)

    def _index_of(self, label: str) -> int:
        return next(index for index, task in enumerate(self.host.step.tasks) if task.label == label)

    def _begin_next_page(self, plan: TaskPlan, rule: Rule, outcome: PlainOutcome, names: Mapping[str, Any]) -> None:
        progress, delay = self.state.progress, delay_of(rule, names)
        if rule.patch is not None:
            progress.config = merge_json(progress.config, templates.render(rule.patch, names))
        if rule.rebind is not None:
            progress.rebound_input = {**progress.rebound_input, **templates.render(rule.rebind, names)}
            progress.config = progress.config if rule.patch is not None else None
        progress.done_id = self._task_ended(plan, "COMPLETED", outcome)
        progress.page, progress.earlier_calls = progress.page + 1, 0
        self._continue_after_delay(rule, delay)

    def _continue_after_delay(self, rule: Rule, delay: float) -> None:
        """Continue with the next call of the current task after ``delay`` seconds; the rule is for the summary."""
        label = self.host.step.tasks[self.state.index].label
        if delay <= 0:
            self._enter_phase("ready")
            return
        self._enter_phase("delay")
        self.state.pending_id = timer_id(self.host, self._plan(), self.state)
        self.delay, self.delay_summary = delay, f"{rule.do} {label} in {delay:g} s"

    def _fail(self, plan: TaskPlan, outcome: PlainOutcome) -> None:
        """End the failed task and fail the pipeline: at once, or after its guarded tasks."""
        self._task_ended(plan, "FAILED", outcome)
        self._fail_task(plan, outcome)

    def _fail_task(self, plan: TaskPlan, outcome: PlainOutcome) -> None:
        state = self.state
        if guarded_tasks.may_follow(self.host.step.tasks, state.index):
            state.records[plan.task.label] = replace(state.records[plan.task.label], outcome=outcome)
            state.failure = outcome
            state.failed_index = state.index
            self._next_task(stop=False)
        elif state.failure is not None:
            guarded_failure = End(
                "error", outcome, plan.task.label, failure_span(plan.task, outcome, state.progress.config)
            )
            self._end_after_last_task()
            self.end = self.end and replace(self.end, guarded_failure=guarded_failure)
        else:
            self._end("error", outcome)

    # ---- the end of the last page -----------------------------------------------------------------------------------

    def _last_page_ended(self, plan: TaskPlan, outcome: PlainOutcome, stop: bool) -> None:
        """Record the collected result, and continue with the task-level sinks, or else with the next task. With
        ``stop`` the other tasks are skipped.
        """
        state = self.state
        if state.progress.has_collected:
            page = last_page(self.host.names, plan.task, outcome)
            final = {**with_result(outcome, state.progress.collected), "status": "ok", "page": page}
            record = state.records[plan.task.label]
            state.records[plan.task.label] = replace(record, kind="collected", outcome=final)
        if outcome["status"] == "ok" and plan.task_sinks:
            state.progress.is_storing, state.progress.is_last = True, stop
            self._enter_phase("ready")
        else:
            self._end_completed_task(plan, outcome)
            self._next_task(stop)

    def _end_completed_task(self, plan: TaskPlan, outcome: PlainOutcome) -> None:
        pages = pages_summary(plan.collect, self.state.progress) if plan.paginates else None
        status = "COMPLETED" if outcome["status"] == "ok" else "FAILED"
        if self.state.progress.has_collected:
            outcome = self.state.records[plan.task.label].outcome
        self.state.progress.done_id = self._task_ended(plan, status, outcome, pages)

    def _apply_stored(self, plan: TaskPlan, report: ToolReport) -> None:
        if report.outcome["status"] == "ok":
            self.state.progress.is_storing = False
            self._end_completed_task(plan, self.state.records[plan.task.label].outcome)
            self._next_task(stop=self.state.progress.is_last)
        else:
            self._task_ended(plan, "FAILED", report.outcome)
            self._end("error", report.outcome)
