"""Computes the effects of a finished call. pipeline.py applies them; nothing here changes its state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from noetl_compiler import templates
from noetl_compiler.graph import Json, NamesProfile, Policy, Rule, Task
from noetl_temporal.machine.call import PlainOutcome, RuleFailure, ToolReport
from noetl_temporal.machine.condition_warning import ConditionWarning
from noetl_temporal.machine.failures import failed_by_rule
from noetl_temporal.machine.policy import Decision
from noetl_temporal.machine.stored import with_only_result, with_result, with_row
from noetl_temporal.machine.undefined import is_reported
from noetl_temporal.machine.unhandled import ENDS, unhandled_warning

__all__ = [
    "Ruling",
    "attempt_outcome",
    "default_ruling",
    "last_page",
    "replaces_error",
    "rule_failure",
    "rule_warnings",
    "ruling_of",
    "with_rule_message",
    "with_rule_result",
]


class Ruling(msgspec.Struct, frozen=True):
    """The action to take after a call (``do``), the rule that decided it, if one did, and the delay of a retry in
    seconds.
    """

    do: str
    rule: Rule | None
    delay: float


def attempt_outcome(report: ToolReport, task_row: int) -> PlainOutcome:
    """Return the outcome; a large result of an attempt is logged in the row of that attempt, below ``task_row``."""
    is_attempt = report.is_decided and report.outcome["status"] == "ok"
    return with_row(report.outcome, task_row) if is_attempt else report.outcome


def rule_failure(failed: RuleFailure, task: Task) -> templates.TemplateFailure:
    """Return the failure of a rule, with the span of its condition or of the rule."""
    rules = task.policy.rules if task.policy else ()
    rule = rules[failed.rule] if failed.rule is not None else task
    when = rule.when if isinstance(rule, Rule) and failed.in_condition else None
    return templates.TemplateFailure(failed.message, when.span if when is not None else rule.span)


_CONTINUE = Ruling("continue", None, 0.0)
_FAIL = Ruling("fail", None, 0.0)


def default_ruling(outcome: PlainOutcome) -> Ruling:
    """Return the action of a task without a policy."""
    return _CONTINUE if outcome["status"] == "ok" else _FAIL


def ruling_of(policy: Policy, decision: Decision, outcome: PlainOutcome) -> Ruling:
    """Return the action of the rule that matched, or the policy's default action if none did."""
    if decision.rule is None:
        return _CONTINUE if policy.unmatched != "fail" else default_ruling(outcome)
    rule = policy.rules[decision.rule]
    return Ruling(decision.do or ("fail" if decision.exhausted else rule.do), rule, decision.delay)


def rule_warnings(
    task: Task, ruling: Ruling, outcome: PlainOutcome, report: ToolReport, names: NamesProfile
) -> Sequence[ConditionWarning]:
    """Return the warnings about rules that did not match because of an undefined name, and about an unhandled error."""
    rule = ruling.rule
    warnings: list[ConditionWarning] = []
    if report.warnings and is_reported(names, (rule is not None and rule.when is not None,)):
        rules = task.policy.rules if task.policy else ()
        messages = ((warning.message, rules[warning.rule]) for warning in report.warnings)
        warnings = [ConditionWarning(text, cause.when.span if cause.when else cause.span) for text, cause in messages]
    if rule is not None and (message := unhandled_warning(rule, ruling.do, outcome, task.label)):
        warnings.append(ConditionWarning(message, rule.span))
    return warnings


def with_rule_result(
    task: Task, rule: Rule, outcome: PlainOutcome, names: Mapping[str, Any], profile: NamesProfile
) -> PlainOutcome:
    """Return the outcome with the result that its rule sets, if it does."""
    if rule.result is None:
        return outcome
    page = last_page(profile, task, outcome)
    return {**with_result(outcome, templates.render(rule.result, names)), "page": page}


def replaces_error(ruling: Ruling, outcome: PlainOutcome) -> bool:
    """Whether the rule replaces an error by a result, so that the task continues as after a success."""
    rule = ruling.rule
    return outcome["status"] == "error" and ruling.do in ENDS and rule is not None and rule.result is not None


def with_rule_message(do: str, rule: Rule, outcome: PlainOutcome, names: Mapping[str, Any]) -> PlainOutcome:
    """Return the outcome with the error message of its rule, which decided to ``do`` something."""
    if do != "fail" or (outcome["status"] == "error" and rule.message is None):
        return outcome
    message = templates.render(rule.message, names) if rule.message is not None else None
    return failed_by_rule(outcome, _reason_of(rule) if message is None else str(message))


def _reason_of(rule: Rule) -> str:
    """Return why the rule failed a success."""
    if rule.do == "retry":
        return f"the rule at line {rule.span.line} retries this success, and its attempts are used up"
    return "the task's policy failed it"


def last_page(names: NamesProfile, task: Task, outcome: PlainOutcome) -> Json:
    """Return the result of the last page, if the profile shows templates that instead of the collected result."""
    return {"kind": task.kind, **with_only_result(outcome)} if names.outcome == "call" else None
