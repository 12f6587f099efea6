"""What a finished call comes to.

The activity has told which rule ended it, or the machine asks the same policy itself when no attempt ever reported. In
this order: the result is recorded, a page is collected, the task's and the rule's ``set`` are rendered against the
scope before any of them and applied, then the rule may give another result or a reason to fail.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from noetl_compiler import templates
from noetl_compiler.graph import Assign, Json, Rule, Task
from noetl_temporal.machine import policy
from noetl_temporal.machine.call import PlainOutcome, RuleFailure, ToolReport
from noetl_temporal.machine.failures import failed_by_rule
from noetl_temporal.machine.state import PipelineState, TaskRecord
from noetl_temporal.machine.stored import result_alone, whole_result, with_result
from noetl_temporal.machine.tasks.collect import collected
from noetl_temporal.machine.tasks.host import Host
from noetl_temporal.machine.tasks.names import PipelineNames
from noetl_temporal.machine.tasks.plan import TaskPlan
from noetl_temporal.machine.tasks.selecting import with_selected
from noetl_temporal.machine.undefined import is_reported
from noetl_temporal.machine.unhandled import unhandled

__all__ = ["Settled", "Settling", "last_page"]


class Settled(NamedTuple):
    """What is to be done now (``do``, by which rule), with which outcome. ``names`` are what that rule sees, none
    without a rule.

    ``delay`` is that of a retry, in seconds.
    """

    do: str
    rule: Rule | None
    outcome: PlainOutcome
    names: Mapping[str, Any]
    delay: float = 0.0


class Settling:
    """Of the pipeline whose state this is."""

    def __init__(self, host: Host, state: PipelineState, names: PipelineNames) -> None:
        self._host = host
        self._state = state
        self._names = names

    def settle(self, plan: TaskPlan, report: ToolReport) -> Settled:
        """Record what a call came to. Raises TemplateFailure."""
        task = plan.task
        outcome, rules = with_selected(task.output, task.kind, report.outcome), task.policy.rules if task.policy else ()
        self._warn_of_result(task, outcome)
        if report.failed is not None:
            self._record(plan, outcome)
            raise _rule_failure(report.failed, rules, task)
        if report.is_decided or task.policy is None:
            decision = policy.Decision(rule=report.rule, exhausted=report.exhausted)
        else:
            decision = self._decide_loss(plan, report, outcome)
        rule = rules[decision.rule] if decision.rule is not None else None
        do = decision.do or _action(task, rule, outcome, decision.exhausted)
        self._record(plan, outcome)
        self._warn(task, rule, report)
        if rule is not None and (message := unhandled(rule, do, outcome, task.label)):
            self._host.warn(message, rule.span)
        sets = (task.set if outcome["status"] == "ok" else ()) + (rule.set if rule else ())
        names: Mapping[str, Any] = {}
        if sets or rule is not None:
            names = self._names.outcome_scope(plan, outcome, report.counts.used or len(report.attempts))
            self._apply_sets(sets, names)
        return Settled(do, rule, self._as_ruled(task, rule, do, outcome, names), names, decision.delay)

    def _decide_loss(self, plan: TaskPlan, report: ToolReport, outcome: PlainOutcome) -> policy.Decision:
        """No activity asked the rules, so the machine does; a retry is a new call."""
        task = plan.task
        names = self._host.scope(self._names.of_call(task, outcome), self._names.of_task())
        attempts = self._state.calls + report.counts.used + 1
        try:
            decision = policy.decide(plan.rules or (), outcome["status"], names, attempts)
        except policy.RuleError as error:
            failed = RuleFailure(error.message, error.rule)
            raise _rule_failure(failed, task.policy.rules if task.policy else (), task) from error
        self._host.journal.emit(
            "policy.task.evaluated",
            task.label,
            task.kind,
            "COMPLETED",
            parent=self._state.event_id,
            rule=decision.rule,
            do=decision.do,
            delay=decision.delay or None,
            indeterminate=list(decision.indeterminate) or None,
            **self._host.meta,
        )
        return decision

    def _warn(self, task: Task, ruling: Rule | None, report: ToolReport) -> None:
        """Of rules that did not match because of an undefined name."""
        rules = task.policy.rules if task.policy else ()
        if is_reported(self._host.source.dialect, (ruling is not None and ruling.when is not None,)):
            for one in report.mistakes:
                rule = rules[one.rule]
                self._host.warn(one.message, rule.when.span if rule.when else rule.span)

    def _warn_of_result(self, task: Task, outcome: PlainOutcome) -> None:
        """What the tool itself warns of: values that were changed."""
        warning = outcome.get("meta", {}).get("warning")
        if isinstance(warning, str):
            self._host.warn(f"{task.label}: {warning}", task.span)

    def _record(self, plan: TaskPlan, outcome: PlainOutcome) -> None:
        """Keep the outcome under the task's label; ``last`` moves on success only."""
        state, task, how = self._state, plan.task, plan.collect
        state.records[task.label] = TaskRecord(task.kind, outcome)
        if task.guard is None:
            state.subject = task.label
        if outcome["status"] != "ok" or task.guard is not None:
            return
        state.last = task.label
        if how is None:
            return
        try:
            state.collected = collected(how, state.collected, task.kind, whole_result(outcome))
        except (KeyError, IndexError, ValueError, TypeError) as error:
            message = f"nothing to collect at {how.path!r} of the response"
            raise templates.TemplateFailure(message, task.span) from error
        state.has_collected = True

    def _apply_sets(self, sets: tuple[Assign, ...], names: Mapping[str, Any]) -> None:
        self._host.assign([(one.target, templates.render(one.value, names)) for one in sets])

    def _as_ruled(
        self, task: Task, rule: Rule | None, do: str, outcome: PlainOutcome, names: Mapping[str, Any]
    ) -> PlainOutcome:
        """The outcome with the result, or the reason to fail, that its rule gives."""
        if rule is not None and rule.result is not None and outcome["status"] == "ok":
            page = last_page(self._host, task, outcome)
            outcome = {**with_result(outcome, templates.render(rule.result, names)), "page": page}
            self._state.records[task.label] = TaskRecord(task.kind, outcome)
        if do != "fail" or rule is None or (outcome["status"] == "error" and rule.message is None):
            return outcome
        message = templates.render(rule.message, names) if rule.message is not None else None
        return failed_by_rule(outcome, "the task's policy failed it" if message is None else str(message))


def _rule_failure(failed: RuleFailure, rules: tuple[Rule, ...], task: Task) -> templates.TemplateFailure:
    span = rules[failed.rule].span if failed.rule is not None else task.span
    return templates.TemplateFailure(failed.message, span)


def _action(task: Task, rule: Rule | None, outcome: PlainOutcome, exhausted: bool) -> str:
    if rule is not None:
        return "fail" if exhausted else rule.do
    if outcome["status"] == "ok":
        return "continue"
    return "fail" if task.policy is None or task.policy.unmatched == "fail" else "continue"


def last_page(host: Host, task: Task, outcome: PlainOutcome) -> Json:
    """What case rules are about when the step's result is another: the last call's own."""
    is_asked = host.source.dialect == "case"
    return {"kind": task.kind, **result_alone(outcome)} if is_asked else None
