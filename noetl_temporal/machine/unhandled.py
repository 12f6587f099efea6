"""Failed calls that a rule ended without testing for errors, usually ``else: {then: {do: break}}``.

The step continues and may use a result that is undefined, so the log gets a warning with the cause.
"""

from __future__ import annotations

import re

from noetl_compiler.graph import Json, Rule
from noetl_temporal.machine.call import PlainOutcome

__all__ = ["ENDS", "unhandled_warning"]

ENDS = frozenset({"continue", "break", "jump"})
"""Actions after which the step continues or succeeds."""

_ABOUT_ERRORS = re.compile(r"\b(?:status|status_code|success|error|last_error|event|http|pg|py)\b")
_LONGEST = 300
"""Maximum length of the error message, in characters."""


def unhandled_warning(rule: Rule, do: str, outcome: PlainOutcome, label: str) -> str | None:
    """Return the warning about the rule that ended a call; None if there is none."""
    if outcome["status"] != "error" or do not in ENDS or _reads_errors(rule):
        return None
    error: dict[str, Json] = outcome.get("error") or {}
    message = " ".join(str(error.get("message") or "error").split())[:_LONGEST]
    return f"{label} failed ({message}); the rule at line {rule.span.line} ended it without handling the error"


def _reads_errors(rule: Rule) -> bool:
    return rule.on_status == "error" or (rule.when is not None and _ABOUT_ERRORS.search(rule.when.source) is not None)
