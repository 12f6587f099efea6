"""Unreachable routes and rules: an earlier one always matches, or their condition never holds."""

from __future__ import annotations

from noetl_compiler.checks.outcomes import holds_after, is_impossible, possible_outcomes
from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Related, nearest
from noetl_compiler.graph import AdmitRule, Span, Template
from noetl_compiler.language.words import OnStatus, Status
from noetl_compiler.report import Report
from noetl_compiler.syntax import Next, Playbook, Policy, Step
from noetl_compiler.syntax_queries import all_tasks
from noetl_compiler.templating.boundary import boundary
from noetl_compiler.templating.outcome_facts import WORDS
from noetl_compiler.templating.truth import string_constants

__all__ = ["warn_of_dead_routes"]

_WORDS_HINT = 'a status is "ok" or "error", an event is "step.done" or "step.failed", for example'
_CONDITION = "add a condition to the earlier one"
_TAKE_BOTH = f"{_CONDITION}, or follow all matching routes with spec: {{mode: inclusive}}"


def warn_of_dead_routes(playbook: Playbook, report: Report) -> None:
    """NT211, NT305, NT403. A route without condition matches only successes, so one for failures may follow."""
    for task in all_tasks(playbook):
        if task.policy:
            _check_rules(task.policy, report)
    hint = _TAKE_BOTH if playbook.dialect == "v10" else _CONDITION
    for step in playbook.steps:
        _check_admission(step.admit, report)
        if step.next and step.next.mode == "exclusive":
            _check_routes(step.next, step, report, hint, of_loop=step.is_about_loop)
        if step.item_routes and step.item_routes.mode == "exclusive":
            _check_routes(step.item_routes, step, report, hint, of_loop=False)


def _check_routes(following: Next, step: Step, report: Report, hint: str, *, of_loop: bool) -> None:
    seen = _Seen(report, of_loop=of_loop)
    for group in following.groups:
        when, span = group[0].when, group[0].span
        earlier = seen.before(group[0].on or boundary(when), when, span)
        if earlier and span != step.name.span:  # the step's implicit route to the end
            message = f'this route of step "{step.name.text}" is unreachable: an earlier one always matches'
            report.warning(Code.DEAD_ROUTE, span, message, hint, _related(earlier))


def _check_rules(policy: Policy, report: Report) -> None:
    seen = _Seen(report)
    for rule in policy.rules:
        if earlier := seen.before(rule.body.on, rule.body.when, rule.body.span):
            _warn_of_dead_rule(rule.body.span, earlier, report)


def _check_admission(rules: tuple[AdmitRule, ...], report: Report) -> None:
    seen = _Seen(report)
    for rule in rules:
        if earlier := seen.before("any", rule.when, rule.span):
            _warn_of_dead_rule(rule.span, earlier, report)


def _warn_of_dead_rule(span: Span, earlier: Span, report: Report) -> None:
    message = "this rule is unreachable: an earlier one always matches"
    report.warning(Code.DEAD_RULE, span, message, "move it up, or remove it", _related(earlier))


def _warn_of_impossible(when: Template, report: Report) -> None:
    message = "this condition never holds, neither after a success nor after a failure"
    hint = next(
        filter(None, (nearest(word, WORDS, cutoff=0.75) for word in string_constants(when.source))), _WORDS_HINT
    )
    report.warning(Code.CONSTANT_CONDITION, when.span, message, hint)


def _related(span: Span) -> tuple[Related, ...]:
    return (Related(span, "the earlier one is here"),)


class _Seen:
    """The rules so far: which outcomes one of them always matches, and which conditions were checked for which
    outcomes. Rules that contain errors are left out, because what they match is unknown.
    """

    def __init__(self, report: Report, *, of_loop: bool = False) -> None:
        self._report = report
        self._of_loop = of_loop
        self._always: dict[Status, Span] = {}
        self._conditions: dict[tuple[Status, str], Span] = {}

    def before(self, on: OnStatus, when: Template | None, span: Span) -> Span | None:
        """Record a rule, and return the span of the earlier rule that makes it unreachable; None if there is none."""
        outcomes = sorted(possible_outcomes(on, when, of_loop=self._of_loop))
        if when is not None and not outcomes and is_impossible(when, of_loop=self._of_loop):
            _warn_of_impossible(when, self._report)
        found = [self._earlier(one, when) for one in outcomes]
        if not self._report.has_error_in(span):
            for one in outcomes:
                self._add(one, when, span)
        earlier = found[0] if found and all(found) else None
        return earlier if earlier != span else None  # rules without a route of their own share one

    def _earlier(self, outcome: Status, when: Template | None) -> Span | None:
        return self._always.get(outcome) or (self._conditions.get((outcome, when.source)) if when else None)

    def _add(self, outcome: Status, when: Template | None, span: Span) -> None:
        if holds_after(when, outcome, of_loop=self._of_loop):
            self._always.setdefault(outcome, span)
        elif when is not None:
            self._conditions.setdefault((outcome, when.source), span)
