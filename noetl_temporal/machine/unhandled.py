"""Failed calls that a rule ended without asking about errors: ``else: {then: {do: break}}``, most often.

The step continues, and what it needs of the result is undefined later; the log gets a warning with the first cause.
"""

from __future__ import annotations

import re

from noetl_compiler.graph import Json, Rule
from noetl_temporal.machine.call import PlainOutcome

__all__ = ["ENDS", "unhandled"]

ENDS = frozenset({"continue", "break", "jump"})
"""Actions after which the step goes on, or ends well."""

_ABOUT_ERRORS = re.compile(r"\b(?:status|status_code|success|error|last_error|event|http|pg|py)\b")
_LONGEST = 300
"""Characters of an error's message."""


def unhandled(rule: Rule, do: str, outcome: PlainOutcome, label: str) -> str | None:
    """The warning about a rule that ended a call; None where there is nothing to say."""
    if outcome["status"] != "error" or do not in ENDS or _asks_about_errors(rule):
        return None
    error: dict[str, Json] = outcome.get("error") or {}
    told = " ".join(str(error.get("message") or "error").split())[:_LONGEST]
    return f"{label} failed ({told}); the rule at line {rule.span.line} ended it without handling the error"


def _asks_about_errors(rule: Rule) -> bool:
    return rule.on == "error" or (rule.when is not None and _ABOUT_ERRORS.search(rule.when.source) is not None)
