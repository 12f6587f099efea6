"""What to do after an attempt: a pure function of the rules, the outcome and the attempts used (semantics.md 17, 18).

The activity decides after every attempt with it, and the machine where no attempt ever reported; it is the only place
where a policy is evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from noetl_compiler import templates
from noetl_compiler.graph import Guard
from noetl_temporal.machine.call import CallRule

__all__ = ["DEFAULT_ATTEMPTS", "Decision", "allows", "decide", "delay_of"]

DEFAULT_ATTEMPTS = 3
_NO_RETRY_AFTER = 0.0


class Decision(msgspec.Struct, frozen=True):
    """``rule`` is the index of the rule that matched, None when none did. ``do`` retry has ``delay`` in seconds;
    ``exhausted`` when a retry matched with no attempt left, then ``do`` is ``fail``."""

    do: str | None = None
    rule: int | None = None
    delay: float = 0.0
    exhausted: bool = False
    indeterminate: tuple[str, ...] = ()


def decide(
    rules: Sequence[CallRule],
    status: str,
    scope: Mapping[str, Any],
    attempts: int,
    *,
    retry_after: float | None = None,
    jitter: float = 0.0,
) -> Decision:
    """The first rule that matches. ``attempts`` counts the calls made so far, this one included; ``jitter`` in 0..1
    comes from the caller, because this function has no randomness of its own.
    """
    unknown: list[str] = []
    for rule in rules:
        if rule.on not in ("any", status):
            continue
        verdict = templates.predicate(rule.when, scope) if rule.when is not None else templates.Verdict(True)
        unknown.extend(verdict.indeterminate)
        if verdict.matched:
            return _apply(rule, attempts, retry_after or _NO_RETRY_AFTER, jitter, tuple(unknown))
    return Decision(indeterminate=tuple(unknown))


def allows(guard: Guard | None, status: str, scope: Mapping[str, Any]) -> bool:
    """Whether a guard lets something be done at this boundary."""
    if guard is None:
        return True
    if guard.on not in ("any", status):
        return False
    if any(templates.predicate(one.source, scope, one.span).matched for one in guard.unless):
        return False
    return guard.when is None or templates.predicate(guard.when.source, scope, guard.when.span).matched


def _apply(rule: CallRule, attempts: int, retry_after: float, jitter: float, unknown: tuple[str, ...]) -> Decision:
    if rule.do != "retry":
        return Decision(rule.do, rule.index, rule.delay, indeterminate=unknown)
    if attempts >= (rule.attempts or DEFAULT_ATTEMPTS):
        return Decision("fail", rule.index, exhausted=True, indeterminate=unknown)
    delay = max(delay_of(rule, attempts, jitter), retry_after)
    return Decision("retry", rule.index, delay, indeterminate=unknown)


def delay_of(rule: CallRule, attempt: int, jitter: float = 0.0) -> float:
    """Seconds to wait after the ``attempt``-th call: constant, linear or exponential, capped, then spread over 50 to
    150 %.
    """
    factor = {"linear": float(attempt), "exponential": _power(rule.multiplier, attempt - 1)}
    delay = rule.delay * factor.get(rule.backoff, 1.0)
    if rule.max_delay is not None:
        delay = min(delay, rule.max_delay)
    return delay * (0.5 + jitter) if rule.jitter else delay


def _power(base: float, exponent: int) -> float:
    """Large powers are infinite, not an error: the cap comes after."""
    try:
        return base**exponent
    except OverflowError:
        return float("inf")
