"""A condition in words: ``on 429/5xx`` for ``output.status == 'error' and output.http.status in [429, ...]``.

Every era asks for the outcome of a call in its own way, and mostly says more than it has to: that there is a response
after a call that went well, or that a failed call failed. A condition that is one expression is cut at its outermost
``and``. A part that asks for nothing but success or failure becomes the outcome; one that asks for the status of a
response becomes that status; one that always holds after that outcome is left out; any other part stays as the author
wrote it. A condition that contradicts itself is left whole, as that is best seen in its own words.
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
from noetl_compiler.source import expressions

__all__ = ["Condition", "Moment", "arc_condition", "bare", "read_condition"]

Moment: TypeAlias = Literal["enter", "call", "loop"]
"""When a condition is evaluated: on entering a step, after a call or the calls of a step, after a whole loop."""


class Condition(NamedTuple):
    """The parts of a condition.

    ``on`` is the outcome it needs, ``cause`` what the response or the error has to be (``429/5xx``), ``rest`` all
    else that it asks. Both are empty texts where nothing is asked.
    """

    on: OnStatus = "any"
    cause: str = ""
    rest: str = ""


_SUCCESS, _FAILURE = frozenset({"ok"}), frozenset({"error"})
_STATES = (
    (_FAILURE, re.compile(r"(?:_?outcome|output)\.status == 'error'|error(?: is defined| (?:!=|is not) none)?")),
    (_SUCCESS, re.compile(r"(?:_?outcome|output)\.status == '(?:ok|success)'|error is not defined|not error")),
    (_SUCCESS | _FAILURE, re.compile("true")),
)
_EVENTS = re.compile(r"event\.name (?:==|in) (?P<names>'[\w.]+'|[\[(]['\w., ]+[\])])")
_NAMES: Mapping[Moment, tuple[frozenset[str], frozenset[str]]] = {
    "enter": (names_of(ENTERED), frozenset()),
    "call": (names_of(AFTER_CALL["ok"]), names_of(AFTER_CALL["error"])),
    "loop": (names_of(AFTER_LOOP["ok"]), names_of(AFTER_LOOP["error"])),
}
"""What the events after success and after failure are called at each moment (semantics.md 8)."""
_PRESENT = re.compile(r"(?:response|result)(?: is defined| (?:!=|is not) none)")
_STATUS = re.compile(
    r"(?:[\w.]+\.)?(?:http\.status|error\.status|status_code)(?: \| int)? (?P<how>==|>=|in) (?P<what>.+)"
)
_BELOW_600 = re.compile(r"[\w.]+(?: \| int)? < 600")
_NOTHING = re.compile(r"(?!)")
_NUMBERS = re.compile(r"\d+|[\[(][\d, ]+[\])]")
_FROM = {"400": "4xx/5xx", "500": "5xx"}
_RETRYABLE = re.compile(r"(?:_?outcome|output)\.error\.retryable(?: \| default\(false\))?(?: == true)?")
_TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[\[({]|[\])}]|\b(?:and|or|if)\b")
_WEAKER = {"and": ("or", "if"), "or": ("if",)}


@lru_cache(maxsize=4096)
def read_condition(when: Template | None, on: OnStatus = "any", moment: Moment = "call") -> Condition:
    """Parse a condition that is evaluated at a moment of a step, and only after the outcome ``on``."""
    if when is None:
        return Condition(on)
    expression = bare(when.source)
    given = {on} if on != "any" else {"ok", "error"}
    cause, rest = "", list[str]()
    for part in _split_at(expression, "and"):
        outcomes = _outcomes(part, moment)
        if outcomes is not None:
            given &= outcomes
        elif not cause and (found := _cause(part)):
            cause = found
        else:
            rest.append(part)
    if not given:
        return Condition(on, rest=expression)
    outcome: OnStatus = "any" if len(given) > 1 else "error" if "error" in given else "ok"
    implied = _PRESENT if outcome == "ok" else _BELOW_600 if cause == "5xx" else _NOTHING
    left = [part for part in rest if not implied.fullmatch(_normalized(part))]
    return Condition(outcome, cause, " and ".join(left))


def arc_condition(arc: Arc, moment: Moment = "call") -> Condition:
    """Return the condition of a route from a step."""
    return read_condition(arc.when, arc.on, moment)


def bare(text: str) -> str:
    """Return a lone ``{{ expression }}`` without its braces, any other text as it is; both on one line."""
    line = " ".join(text.split())
    is_lone = line.startswith("{{") and expressions(line) == ((0, len(line)),) and line.endswith("}}")
    return line[2:-2].strip("-+ ") if is_lone else line


def _split_at(expression: str, word: Literal["and", "or"]) -> list[str]:
    """Cut at a word outside of brackets and texts; not at all if a word outside binds weaker."""
    outer = list(_outer_words(expression))
    if any(found[0] in _WEAKER[word] for found in outer):
        return [expression]
    cuts = [found.span() for found in outer if found[0] == word]
    begins, ends = [0, *(end for _, end in cuts)], [*(begin for begin, _ in cuts), len(expression)]
    return [expression[begin:end].strip() for begin, end in zip(begins, ends, strict=True)]


def _outer_words(expression: str) -> Iterator[re.Match[str]]:
    depth = 0
    for token in _TOKEN.finditer(expression):
        depth += (token[0] in "[({") - (token[0] in "])}")
        if not depth and token[0].isalpha():
            yield token


def _normalized(part: str) -> str:
    """Normalize for comparison: remove outer brackets, unify quotes and the spelling of constants."""
    while _is_bracketed(part):
        part = part[1:-1].strip()
    return re.sub(r"\b(?:True|False|None)\b", lambda found: found[0].lower(), part.replace('"', "'"))


def _is_bracketed(part: str) -> bool:
    depths = list(accumulate((char == "(") - (char == ")") for char in part))
    return part.startswith("(") and part.endswith(")") and all(depths[:-1])


def _outcomes(part: str, moment: Moment) -> frozenset[str] | None:
    """After which outcomes a part holds that asks for nothing else; None for any other."""
    plain = _normalized(part)
    if (asked := _EVENTS.fullmatch(plain)) is None:
        return next((outcomes for outcomes, state in _STATES if state.fullmatch(plain)), None)
    names = set(re.findall(r"[\w.]+", asked["names"]))
    after = [outcome for outcome, events in zip((_SUCCESS, _FAILURE), _NAMES[moment], strict=True) if names & events]
    return frozenset[str]().union(*after) or None


def _cause(part: str) -> str:
    """``429/5xx``, ``a retryable error``, or nothing."""
    plain = _normalized(part)
    if _RETRYABLE.fullmatch(plain):
        return "a retryable error"
    causes = [_status(_normalized(one)) for one in _split_at(plain, "or")]
    return "/".join(causes) if all(causes) else ""


def _status(plain: str) -> str:
    found = _STATUS.fullmatch(plain)
    if found is None or not _NUMBERS.fullmatch(found["what"]):
        return ""
    return _FROM.get(found["what"], "") if found["how"] == ">=" else "/".join(re.findall(r"\d+", found["what"]))
