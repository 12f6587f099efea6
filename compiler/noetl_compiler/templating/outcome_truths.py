"""Evaluate conditions when only the outcome of the call is known.

The names are those that the machine binds after a call; ``tests/compiler/test_outcomes.py`` compares the two.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from jinja2 import nodes

from noetl_compiler.language.events import AFTER_CALL, AFTER_LOOP, NAMES, SKIPPED, names_of
from noetl_compiler.language.names import EVENT, STATUS_NAMES
from noetl_compiler.language.words import Status
from noetl_compiler.templating.truth import ABSENT, PRESENT, KnownValues, Synonyms, truth

__all__ = ["NO_TRUTHS", "WORDS", "Truths", "may_depend_on_outcome", "truths_of", "truths_of_path"]

WORDS = frozenset({*AFTER_CALL, *NAMES})
"""The possible values of a status or an event."""


class Truths(NamedTuple):
    """The result of a condition in each case: True, False, or None if it depends on more than the outcome.

    The cases: success and failure of a call, success and failure of a whole loop, no call, any case.
    """

    ok: bool | None = None
    error: bool | None = None
    loop_ok: bool | None = None
    loop_error: bool | None = None
    skipped: bool | None = None
    always: bool | None = None


NO_TRUTHS = Truths()

_OUTCOME_WORDS = re.compile(r"\b(?:_?outcome|output|success|error|last_error|event|or|and|not|true|false|True|False)\b")
"""A condition that reads names, but contains none of these words, never depends on the outcome alone."""


def _known_after(outcome: Status, event: str) -> KnownValues:
    statuses = dict.fromkeys(("output.status", "outcome.status", "_outcome.status"), outcome)
    is_ok = outcome == "ok"
    errors = {"error": ABSENT, "last_error": None} if is_ok else {"error": PRESENT, "last_error": PRESENT}
    return {**statuses, **errors, "success": is_ok, "event.name": Synonyms(names_of(event))}


_CASES: tuple[KnownValues, ...] = (
    _known_after("ok", AFTER_CALL["ok"]),
    _known_after("error", AFTER_CALL["error"]),
    _known_after("ok", AFTER_LOOP["ok"]),
    _known_after("error", AFTER_LOOP["error"]),
    {"event.name": Synonyms(names_of(SKIPPED)), **dict.fromkeys(STATUS_NAMES - EVENT, ABSENT)},
    {},
)


def may_depend_on_outcome(source: str) -> bool:
    """Whether a condition that reads names may depend on the outcome alone."""
    return _OUTCOME_WORDS.search(source) is not None


def truths_of(source: str, expression: nodes.Expr | None) -> Truths:
    """Return the truths of a template, given its only expression."""
    if expression is None or not (may_depend_on_outcome(source) or expression.find(nodes.Name) is None):
        return NO_TRUTHS
    return Truths(*(truth(expression, known_values) for known_values in _CASES))


def truths_of_path(path: str) -> Truths:
    """Return the truths of a template that is just a path, such as ``{{ success }}``."""
    if not may_depend_on_outcome(path):
        return NO_TRUTHS
    name, *remaining_names = path.split(".")
    expression: nodes.Expr = nodes.Name(name, "load")
    for part in remaining_names:
        expression = nodes.Getattr(expression, part, "load")
    return truths_of(path, expression)
