"""Decide after which outcomes of a call a condition holds, if that depends on the outcome alone."""

from __future__ import annotations

from noetl_compiler.graph import Template
from noetl_compiler.language.words import OnStatus, Status
from noetl_compiler.templating.analysis import analyse_template

__all__ = ["BOTH", "holds_after", "is_impossible", "possible_outcomes"]

BOTH: frozenset[Status] = frozenset({"ok", "error"})


def holds_after(when: Template | None, outcome: Status, *, after_loop: bool = False) -> bool | None:
    """Whether a condition holds after every call with this outcome (True), after none (False), or unknown (None)."""
    if when is None or when.source.strip("{} \n").lower() in ("true", "yes", "1"):
        return True
    if "{" not in when.source:
        return False
    truths = analyse_template(when.source).truths
    if after_loop:
        return truths.loop_ok if outcome == "ok" else truths.loop_error
    return truths.ok if outcome == "ok" else truths.error


def possible_outcomes(on: OnStatus, when: Template | None, *, after_loop: bool = False) -> frozenset[Status]:
    """Return the outcomes after which a rule for ``on`` may match."""
    candidates: frozenset[Status] = BOTH if on == "any" else frozenset({on})
    return frozenset(
        outcome for outcome in candidates if holds_after(when, outcome, after_loop=after_loop) is not False
    )


def is_impossible(when: Template, *, after_loop: bool = False) -> bool:
    """Whether a condition that is not constant never holds: neither after a call nor without one."""
    if "{" not in when.source:
        return False
    truths = analyse_template(when.source).truths
    return (
        truths.always is None and truths.skipped is False and not possible_outcomes("any", when, after_loop=after_loop)
    )
