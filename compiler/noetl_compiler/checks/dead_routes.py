"""Unreachable routes and rules: an earlier one always matches, or their condition never holds."""

from __future__ import annotations

from noetl_compiler.checks.outcomes import holds_after, is_impossible, possible_outcomes
from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Related, did_you_mean
from noetl_compiler.graph import AdmitRule, Span, Template
from noetl_compiler.language.words import OnStatus, Status
from noetl_compiler.report import Report
from noetl_compiler.syntax import Next, Playbook, Policy, Step
from noetl_compiler.syntax_queries import all_tasks
from noetl_compiler.templating.default_on_status import default_on_status
from noetl_compiler.templating.outcome_truths import WORDS
from noetl_compiler.templating.truth import string_constants

__all__ = ["warn_of_dead_routes"]

_OUTCOME_HINT = 'a status is "ok" or "error", an event is "step.done" or "step.failed", for example'
_ADD_CONDITION = "add a condition to the earlier one"
_FOLLOW_BOTH = f"{_ADD_CONDITION}, or follow all matching routes with spec: {{mode: inclusive}}"


def warn_of_dead_routes(playbook: Playbook, report: Report) -> None:
    """Report NT211, NT305, NT403. A route without condition matches only successes, so one for failures may follow."""
    for task in all_tasks(playbook):
        if task.policy:
            _check_rules(task.policy, report)
    hint = _FOLLOW_BOTH if playbook.dialect == "v10" else _ADD_CONDITION
    for step in playbook.steps:
        _check_admission(step.admit, report)
        if step.next and step.next.mode == "exclusive":
            _check_routes(step.next, step, report, hint, after_loop=step.has_loop_outcome)
        if step.item_routes and step.item_routes.mode == "exclusive":
            _check_routes(step.item_routes, step, report, hint, after_loop=False)


def _check_routes(route: Next, step: Step, report: Report, hint: str, *, after_loop: bool) -> None:
    earlier_routes = _EarlierRules(report, after_loop=after_loop)
    for group in route.groups:
        when, span = group[0].when, group[0].span
        obstacle = earlier_routes.add(group[0].on_status or default_on_status(when), when, span)
        if obstacle and span != step.name.span:  # the step's implicit route to the end
            message = f'this route of step "{step.name.text}" is unreachable: an earlier one always matches'
            report.warning(Code.DEAD_ROUTE, span, message, hint, _related_to(obstacle))


def _check_rules(policy: Policy, report: Report) -> None:
    earlier_rules = _EarlierRules(report)
    for rule in policy.rules:
        if obstacle := earlier_rules.add(rule.body.on_status, rule.body.when, rule.body.span):
            _warn_of_dead_rule(rule.body.span, obstacle, report)


def _check_admission(rules: tuple[AdmitRule, ...], report: Report) -> None:
    earlier_rules = _EarlierRules(report)
    for rule in rules:
        if obstacle := earlier_rules.add("any", rule.when, rule.span):
            _warn_of_dead_rule(rule.span, obstacle, report)


def _warn_of_dead_rule(span: Span, earlier: Span, report: Report) -> None:
    message = "this rule is unreachable: an earlier one always matches"
    report.warning(Code.DEAD_RULE, span, message, "move it up, or remove it", _related_to(earlier))


def _warn_of_impossible_condition(when: Template, report: Report) -> None:
    message = "this condition never holds, neither after a success nor after a failure"
    hint = next(
        filter(None, (did_you_mean(word, WORDS, cutoff=0.75) for word in string_constants(when.source))), _OUTCOME_HINT
    )
    report.warning(Code.CONSTANT_CONDITION, when.span, message, hint)


def _related_to(span: Span) -> tuple[Related, ...]:
    return (Related(span, "the earlier one is here"),)


class _EarlierRules:
    """The rules or routes so far: the first that always matches an outcome, and the first with a condition.

    Those that contain errors are left out, because what they match is unknown.
    """

    def __init__(self, report: Report, *, after_loop: bool = False) -> None:
        self._report = report
        self._after_loop = after_loop
        self._always_match: dict[Status, Span] = {}
        self._conditions: dict[tuple[Status, str], Span] = {}

    def add(self, on: OnStatus, when: Template | None, span: Span) -> Span | None:
        """Add a rule. Return the span of the earlier rule that makes it unreachable; None if there is none."""
        outcomes = sorted(possible_outcomes(on, when, after_loop=self._after_loop))
        if when is not None and not outcomes and is_impossible(when, after_loop=self._after_loop):
            _warn_of_impossible_condition(when, self._report)
        obstacles = [self._obstacle_after(outcome, when) for outcome in outcomes]
        if not self._report.has_error_in(span):
            for outcome in outcomes:
                self._record(outcome, when, span)
        obstacle = obstacles[0] if obstacles and all(obstacles) else None
        return obstacle if obstacle != span else None  # several rules may share one route

    def _obstacle_after(self, outcome: Status, when: Template | None) -> Span | None:
        return self._always_match.get(outcome) or (self._conditions.get((outcome, when.source)) if when else None)

    def _record(self, outcome: Status, when: Template | None, span: Span) -> None:
        if holds_after(when, outcome, after_loop=self._after_loop):
            self._always_match.setdefault(outcome, span)
        elif when is not None:
            self._conditions.setdefault((outcome, when.source), span)
