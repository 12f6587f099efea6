"""Ways on and rules that can never be chosen, because one before them always is."""

from __future__ import annotations

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Related
from noetl_compiler.graph import AdmitRule, Span, Template
from noetl_compiler.lowering.routes import boundary
from noetl_compiler.report import Report
from noetl_compiler.syntax import Next, Playbook, Policy, Step

__all__ = ["is_always_true", "warn_of_dead_routes"]

_BOTH = frozenset({"ok", "error"})
_HINT = "put it before, or remove it"
_TAKE_BOTH = "give the one before it a condition, or take all that match with spec: {mode: inclusive}"


def warn_of_dead_routes(playbook: Playbook, report: Report) -> None:
    """NT211 and NT403. An unconditional way is not taken after a failure, so one that asks about it may follow."""
    for task in (*playbook.workbook, *(task for step in playbook.steps for task in step.tasks)):
        if task.policy:
            _check_rules(task.policy, report)
    for step in playbook.steps:
        _check_admission(step.admit, report)
        if step.next and step.next.mode == "exclusive":
            _check_routes(step.next, step, report)


def is_always_true(when: Template | None) -> bool:
    """Whether a condition is absent or says true."""
    return when is None or when.source.strip("{} \n").lower() in ("true", "yes", "1")


def _check_routes(following: Next, step: Step, report: Report) -> None:
    seen = _Seen()
    for group in following.groups:
        asked = group[0].on or boundary(group[0].when)
        on = _BOTH if asked == "any" else frozenset({asked})
        if earlier := seen.covers(on, group[0].when):
            message = f'step "{step.name.text}" never takes this way: one before it always goes first'
            report.warning(Code.DEAD_ROUTE, group[0].span, message, _TAKE_BOTH, _before(earlier))
        seen.add(on, group[0].when, group[0].span)


def _check_rules(policy: Policy, report: Report) -> None:
    seen = _Seen()
    for rule in policy.rules:
        on = _BOTH if rule.body.on == "any" else frozenset({rule.body.on})
        if earlier := seen.covers(on, rule.body.when):
            message = "this rule never matches: one before it always does"
            report.warning(Code.DEAD_RULE, rule.body.span, message, _HINT, _before(earlier))
        seen.add(on, rule.body.when, rule.body.span)


def _check_admission(rules: tuple[AdmitRule, ...], report: Report) -> None:
    seen = _Seen()
    for rule in rules:
        if earlier := seen.covers(_BOTH, rule.when):
            message = "this rule never matches: one before it always does"
            report.warning(Code.DEAD_RULE, rule.span, message, _HINT, _before(earlier))
        seen.add(_BOTH, rule.when, rule.span)


def _before(span: Span) -> tuple[Related, ...]:
    return (Related(span, "it is this one"),)


class _Seen:
    """What the rules so far always match, by outcome; and each condition with the outcomes it was asked for."""

    def __init__(self) -> None:
        self._always: dict[str, Span] = {}
        self._asked: dict[tuple[str, str], Span] = {}

    def covers(self, on: frozenset[str], when: Template | None) -> Span | None:
        """The rule because of which one with this condition never matches."""
        found = [self._always.get(one) or (self._asked.get((one, when.source)) if when else None) for one in sorted(on)]
        return found[0] if all(found) else None

    def add(self, on: frozenset[str], when: Template | None, span: Span) -> None:
        """Remember a rule."""
        for one in on:
            if is_always_true(when):
                self._always.setdefault(one, span)
            elif when is not None:
                self._asked.setdefault((one, when.source), span)
