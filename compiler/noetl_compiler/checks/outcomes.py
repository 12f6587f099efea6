"""After which outcomes of a call a condition holds, as far as the outcome alone decides it."""

from __future__ import annotations

from noetl_compiler.graph import Template
from noetl_compiler.language.words import OnStatus, Status
from noetl_compiler.templating.check import examine

__all__ = ["BOTH", "holds_after", "is_impossible", "possible_outcomes"]

BOTH: frozenset[Status] = frozenset({"ok", "error"})


def holds_after(when: Template | None, outcome: Status, *, of_loop: bool = False) -> bool | None:
    """Whether a condition holds after every call with this outcome (True), after none (False), or unknown (None)."""
    if when is None or when.source.strip("{} \n").lower() in ("true", "yes", "1"):
        return True
    if "{" not in when.source:
        return False
    truths = examine(when.source).truths
    if of_loop:
        return truths.loop_ok if outcome == "ok" else truths.loop_error
    return truths.ok if outcome == "ok" else truths.error


def possible_outcomes(on: OnStatus, when: Template | None, *, of_loop: bool = False) -> frozenset[Status]:
    """Return the outcomes after which a rule for ``on`` may match."""
    asked: frozenset[Status] = BOTH if on == "any" else frozenset({on})
    return frozenset(one for one in asked if holds_after(when, one, of_loop=of_loop) is not False)


def is_impossible(when: Template, *, of_loop: bool = False) -> bool:
    """Whether a condition that is not constant never holds: neither after a call nor without one."""
    if "{" not in when.source:
        return False
    truths = examine(when.source).truths
    return truths.always is None and truths.skipped is False and not possible_outcomes("any", when, of_loop=of_loop)
