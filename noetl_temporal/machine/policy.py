"""Decides what to do after an attempt: a pure function of rules, outcome and attempts used (semantics.md 17, 18).

The activity calls it after every attempt, and the machine for calls without a report. Policies are evaluated only here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from noetl_compiler import templates
from noetl_compiler.graph import Guard, Span, Value
from noetl_compiler.language import defaults
from noetl_compiler.templates import TemplateFailure
from noetl_temporal.machine import quantities
from noetl_temporal.machine.call import CallRule, RuleFailure, RuleWarning
from noetl_temporal.machine.undefined import unmatched_warning

__all__ = ["Decision", "RuleError", "allows", "decide", "delay_of", "failure_of", "is_last_page"]

_NO_RETRY_AFTER = 0.0


class RuleError(TemplateFailure):
    """The condition, or a number, of the rule at index ``rule`` could not be evaluated: the task fails there."""

    def __init__(self, failure: TemplateFailure, rule: int, *, in_condition: bool) -> None:
        super().__init__(failure.message, failure.span, failure.name)
        self.rule = rule
        self.in_condition = in_condition


class Decision(msgspec.Struct, frozen=True):
    """What to do after an attempt.

    ``rule`` is the index of the rule that matched, None if none did. Only ``do`` retry has a ``delay``, in seconds.
    ``exhausted``: a retry matched without attempts left, and ``do`` is ``fail``. ``warnings`` are those of rules that
    did not match after a success because of an undefined name.
    """

    do: str | None = None
    rule: int | None = None
    delay: float = 0.0
    exhausted: bool = False
    indeterminate: tuple[str, ...] = ()
    warnings: tuple[RuleWarning, ...] = ()


def decide(
    rules: Sequence[CallRule],
    status: str,
    scope: Mapping[str, Any],
    attempts: int,
    *,
    retry_after: float | None = None,
    jitter: float = 0.0,
) -> Decision:
    """Return the first rule that matches. ``attempts`` counts the calls made so far, this one included; ``jitter`` in
    0..1 comes from the caller, because this function has no randomness of its own. Raises RuleError.
    """
    unknown: list[str] = []
    warnings: list[RuleWarning] = []
    for rule in rules:
        if rule.on_status not in ("any", status):
            continue
        verdict = _verdict(rule, scope)
        unknown.extend(verdict.indeterminate)
        if status == "ok" and rule.when is not None and (message := unmatched_warning(rule.when, scope, verdict)):
            warnings.append(RuleWarning(rule.index, message))
        if not verdict.matched:
            continue
        try:
            decision = _apply(rule, scope, attempts, retry_after or _NO_RETRY_AFTER, jitter, tuple(unknown))
        except TemplateFailure as failure:
            raise RuleError(failure, rule.index, in_condition=False) from failure
        return msgspec.structs.replace(decision, warnings=tuple(warnings))
    return Decision(indeterminate=tuple(unknown), warnings=tuple(warnings))


def failure_of(error: TemplateFailure) -> RuleFailure:
    """Return the error of a rule, or of a template beside the rules, as it is reported to the workflow."""
    if isinstance(error, RuleError):
        return RuleFailure(error.message, error.rule, error.in_condition)
    return RuleFailure(error.message)


def _verdict(rule: CallRule, scope: Mapping[str, Any]) -> templates.PredicateResult:
    if rule.when is None:
        return templates.PredicateResult(True)
    try:
        return templates.predicate(rule.when, scope)
    except TemplateFailure as failure:
        raise RuleError(failure, rule.index, in_condition=True) from failure


def allows(guard: Guard | None, status: str, scope: Mapping[str, Any]) -> bool:
    """Whether a guard holds after this outcome."""
    if guard is None:
        return True
    if guard.on_status not in ("any", status):
        return False
    if any(templates.predicate(condition.source, scope, condition.span).matched for condition in guard.unless):
        return False
    return guard.when is None or templates.predicate(guard.when.source, scope, guard.when.span).matched


def _apply(
    rule: CallRule,
    scope: Mapping[str, Any],
    attempts: int,
    retry_after: float,
    jitter: float,
    unknown: tuple[str, ...],
) -> Decision:
    if rule.do != "retry":
        return Decision(rule.do, rule.index, indeterminate=unknown)
    if attempts >= _count_of(rule.attempts, scope, defaults.ATTEMPTS):
        return Decision("fail", rule.index, exhausted=True, indeterminate=unknown)
    delay = max(delay_of(rule, attempts, jitter, scope), retry_after)
    return Decision("retry", rule.index, delay, indeterminate=unknown)


def is_last_page(rules: Sequence[CallRule], decision: Decision, scope: Mapping[str, Any], page: int | None) -> bool:
    """Whether the rule that matched would call for another page, but allows no more than there are."""
    if decision.do != "again":
        return False
    rule = next(candidate for candidate in rules if candidate.index == decision.rule)
    try:
        return (page or 1) >= _count_of(rule.attempts, scope, defaults.PAGES)
    except TemplateFailure:
        return False  # the task fails at this rule, and says why


def delay_of(rule: CallRule, attempt: int, jitter: float = 0.0, scope: Mapping[str, Any] | None = None) -> float:
    """Return seconds to wait after the ``attempt``-th call: constant, linear or exponential, capped, then with jitter
    of 50 to 150 %. Raises TemplateFailure if a value is not a duration.
    """
    factor = {"linear": float(attempt), "exponential": _power(rule.multiplier, attempt - 1)}
    seconds = _seconds_of(rule.delay, "delay", scope or {}) or 0.0
    delay = seconds * factor.get(rule.backoff, 1.0) if seconds else 0.0
    longest = _seconds_of(rule.max_delay, "max_delay", scope or {})
    if longest is not None:
        delay = min(delay, longest)
    return delay * (0.5 + jitter) if rule.jitter else delay


def _count_of(value: Value | None, scope: Mapping[str, Any], default: int) -> int:
    number = None if value is None else templates.render(value, scope)
    if value is None or number is None:
        return default
    return quantities.count(number, "attempts", _span_of(value), minimum=1)


def _seconds_of(value: Value | None, field: str, scope: Mapping[str, Any]) -> float | None:
    number = None if value is None else templates.render(value, scope)
    return None if value is None or number is None else quantities.seconds(number, field, _span_of(value))


def _span_of(value: Value) -> Span | None:
    return next(iter(value.templates.values()), None)


def _power(base: float, exponent: int) -> float:
    """Return a power; infinite instead of an error if it is too large, as the cap is applied later."""
    try:
        return base**exponent
    except OverflowError:
        return float("inf")
