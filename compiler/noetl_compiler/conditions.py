"""Summarize conditions for people: ``on 429/5xx`` for ``output.status == 'error' and output.http.status in [429,
...]``.

Each dialect tests the outcome of a call in its own way, often with redundant parts: that there is a response after a
success, or that a failed call failed. A condition that is one expression is split at its outermost ``and``. A part that
tests only for success or failure becomes the outcome; one that tests the status of a response becomes that status; one
that always holds after that outcome is left out; any other part is kept as written. A condition that contradicts itself
is kept whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import accumulate
from typing import Literal, NamedTuple, TypeAlias

from noetl_compiler.graph import Arc, Template
from noetl_compiler.language.events import AFTER_CALL, AFTER_LOOP, ENTERED, names_of
from noetl_compiler.language.words import OnStatus
from noetl_compiler.source import lone_expression

__all__ = ["Condition", "Moment", "arc_condition", "read_condition", "strip_braces"]

Moment: TypeAlias = Literal["enter", "call", "loop"]
"""When a condition is evaluated: on entry to a step, after a call or the calls of a step, after a whole loop."""


class Condition(NamedTuple):
    """The parts of a condition.

    ``on_status`` is the required outcome, ``cause`` the required status or kind of error (``429/5xx``), ``remainder``
    all other parts. ``cause`` and ``remainder`` may be empty.
    """

    on_status: OnStatus = "any"
    cause: str = ""
    remainder: str = ""


_SUCCESS, _FAILURE = frozenset({"ok"}), frozenset({"error"})
_OUTCOME_PATTERNS = (
    (_FAILURE, re.compile(r"(?:_?outcome|output)\.status == 'error'|error(?: is defined| (?:!=|is not) none)?")),
    (_SUCCESS, re.compile(r"(?:_?outcome|output)\.status == '(?:ok|success)'|error is not defined|not error")),
    (_SUCCESS | _FAILURE, re.compile("true")),
)
_EVENT_TEST = re.compile(r"event\.name (?:==|in) (?P<names>'[\w.]+'|[\[(]['\w., ]+[\])])")
_EVENT_NAMES: Mapping[Moment, tuple[frozenset[str], frozenset[str]]] = {
    "enter": (names_of(ENTERED), frozenset()),
    "call": (names_of(AFTER_CALL["ok"]), names_of(AFTER_CALL["error"])),
    "loop": (names_of(AFTER_LOOP["ok"]), names_of(AFTER_LOOP["error"])),
}
"""Moment -> the names of the events after success, and of those after failure (semantics.md 8)."""
_HAS_RESPONSE = re.compile(r"(?:response|result)(?: is defined| (?:!=|is not) none)")
_STATUS_TEST = re.compile(
    r"(?:[\w.]+\.)?(?:http\.status|error\.status|status_code)(?: \| int)? (?P<operator>==|>=|in) (?P<value>.+)"
)
_BELOW_600 = re.compile(r"[\w.]+(?: \| int)? < 600")
_NEVER = re.compile(r"(?!)")
_STATUS_CODES = re.compile(r"\d+|[\[(][\d, ]+[\])]")
_STATUS_RANGES = {"400": "4xx/5xx", "500": "5xx"}
_RETRYABLE = re.compile(r"(?:_?outcome|output)\.error\.retryable(?: \| default\(false\))?(?: == true)?")
_TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[\[({]|[\])}]|\b(?:and|or|if)\b")
_LOWER_PRECEDENCE = {"and": ("or", "if"), "or": ("if",)}


@lru_cache(maxsize=4096)
def read_condition(when: Template | None, on_status: OnStatus = "any", moment: Moment = "call") -> Condition:
    """Parse a condition that is evaluated at a moment of a step, and only after the outcome ``on_status``."""
    if when is None:
        return Condition(on_status)
    expression = strip_braces(when.source)
    possible_outcomes = {on_status} if on_status != "any" else {"ok", "error"}
    cause, other_parts = "", list[str]()
    for part in _split(expression, "and"):
        outcomes = _outcomes_of(part, moment)
        if outcomes is not None:
            possible_outcomes &= outcomes
        elif not cause and (status := _cause_of(part)):
            cause = status
        else:
            other_parts.append(part)
    if not possible_outcomes:
        return Condition(on_status, remainder=expression)
    outcome: OnStatus = "any" if len(possible_outcomes) > 1 else "error" if "error" in possible_outcomes else "ok"
    implied_part = _HAS_RESPONSE if outcome == "ok" else _BELOW_600 if cause == "5xx" else _NEVER
    remaining_parts = [part for part in other_parts if not implied_part.fullmatch(_normalize(part))]
    return Condition(outcome, cause, " and ".join(remaining_parts))


def arc_condition(arc: Arc, moment: Moment = "call") -> Condition:
    """Return the condition of a route from a step."""
    return read_condition(arc.when, arc.on_status, moment)


def strip_braces(text: str) -> str:
    """Return a lone ``{{ expression }}`` without its braces, any other text unchanged; both on one line."""
    line = " ".join(text.split())
    expression = lone_expression(line)
    return line if expression is None else expression


def _split(expression: str, operator: Literal["and", "or"]) -> list[str]:
    """Split at an operator outside of brackets and strings; not at all if there is one of lower precedence."""
    operators = list(_outermost_operators(expression))
    if any(match[0] in _LOWER_PRECEDENCE[operator] for match in operators):
        return [expression]
    splits = [match.span() for match in operators if match[0] == operator]
    starts, ends = [0, *(end for _, end in splits)], [*(begin for begin, _ in splits), len(expression)]
    return [expression[begin:end].strip() for begin, end in zip(starts, ends, strict=True)]


def _outermost_operators(expression: str) -> Iterator[re.Match[str]]:
    """Yield the matches of ``and``, ``or`` and ``if`` outside of brackets and strings."""
    depth = 0
    for token in _TOKEN.finditer(expression):
        depth += (token[0] in "[({") - (token[0] in "])}")
        if not depth and token[0].isalpha():
            yield token


def _normalize(part: str) -> str:
    """Normalize for comparison: remove outer brackets, unify quotes and the spelling of constants."""
    while _is_bracketed(part):
        part = part[1:-1].strip()
    return re.sub(r"\b(?:True|False|None)\b", lambda constant: constant[0].lower(), part.replace('"', "'"))


def _is_bracketed(part: str) -> bool:
    depths = list(accumulate((char == "(") - (char == ")") for char in part))
    return part.startswith("(") and part.endswith(")") and all(depths[:-1])


def _outcomes_of(part: str, moment: Moment) -> frozenset[str] | None:
    """Return the outcomes after which a part holds; None if the part tests anything else."""
    expression = _normalize(part)
    if (match := _EVENT_TEST.fullmatch(expression)) is None:
        return next((outcomes for outcomes, pattern in _OUTCOME_PATTERNS if pattern.fullmatch(expression)), None)
    names = set(re.findall(r"[\w.]+", match["names"]))
    outcomes = [
        outcome for outcome, events in zip((_SUCCESS, _FAILURE), _EVENT_NAMES[moment], strict=True) if names & events
    ]
    return frozenset[str]().union(*outcomes) or None


def _cause_of(part: str) -> str:
    """Return ``429/5xx``, ``a retryable error``, or ``""`` if the part tests anything else."""
    expression = _normalize(part)
    if _RETRYABLE.fullmatch(expression):
        return "a retryable error"
    causes = [_status_of(_normalize(alternative)) for alternative in _split(expression, "or")]
    return "/".join(causes) if all(causes) else ""


def _status_of(expression: str) -> str:
    match = _STATUS_TEST.fullmatch(expression)
    if match is None or not _STATUS_CODES.fullmatch(match["value"]):
        return ""
    return (
        _STATUS_RANGES.get(match["value"], "")
        if match["operator"] == ">="
        else "/".join(re.findall(r"\d+", match["value"]))
    )
