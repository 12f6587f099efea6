"""Converts the value of a template to the duration, count, flag or word that a field of the playbook needs.

A template may yield anything: text instead of a number, ``nan``, a list. A value of the wrong type or out of range
fails the playbook, with the span and the name of the field, before it is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeVar, cast

from noetl_compiler.graph import Json, Span
from noetl_compiler.language.quantities import FALSE_WORDS, TRUE_WORDS, parse_duration, parse_number
from noetl_compiler.templates import TemplateFailure

__all__ = ["MAX_COUNT", "MAX_SECONDS", "count", "flag", "seconds", "word"]

Meaning = TypeVar("Meaning")

MAX_SECONDS = 10 * 365.25 * 86400
"""Ten years, the longest duration that is accepted."""

MAX_COUNT = 1_000_000_000
"""The highest count that is accepted."""

_TEXT_SHOWN = 40
_DIGITS_SHOWN = 2**63


def seconds(value: Json, field: str, span: Span | None) -> float:
    """Return a duration in seconds, from 0 to ten years: a number, or a text such as ``30s``, ``1.5m``, ``500ms``, ``2
    h``.

    ``field`` names the field in the failure: ``delay``. Raises TemplateFailure for anything else.
    """
    number = _number(value, parse_duration)
    if number is None or math.isnan(number):
        raise _failure(field, value, "seconds or a duration like 30s", span)
    if number < 0:
        raise _failure(field, value, "0 seconds or more", span)
    if number > MAX_SECONDS:
        raise _failure(field, value, "a duration of at most 10 years", span)
    return number


def count(value: Json, field: str, span: Span | None, minimum: int = 0) -> int:
    """Return a whole number from ``minimum`` to ``MAX_COUNT``: 3, 3.0 or ``"3"``. Raises TemplateFailure for
    anything else.
    """
    number = _number(value, parse_number)
    if number is None or math.isnan(number):
        raise _failure(field, value, "a whole number", span)
    if number < minimum:
        raise _failure(field, value, f"a whole number of {minimum} or more", span)
    if number > MAX_COUNT:
        raise _failure(field, value, f"a whole number of at most {MAX_COUNT:,}", span)
    if not number.is_integer():
        raise _failure(field, value, "a whole number", span)
    return int(number)


def flag(value: Json, field: str, span: Span | None) -> bool:
    """Return a boolean, also as 1, 0, or the words yes, no, true and false.

    Raises TemplateFailure for anything else.
    """
    word = value.strip().lower() if isinstance(value, str) else None
    if value is True or value is False:
        return value
    if word in TRUE_WORDS or (word is None and _number(value, parse_number) == 1):
        return True
    if word in FALSE_WORDS or (word is None and _number(value, parse_number) == 0):
        return False
    raise _failure(field, value, "true or false", span)


def word(value: Json, field: str, meanings: Mapping[str, Meaning], span: Span | None) -> Meaning:
    """Return the meaning of one of several words. Raises TemplateFailure for anything else."""
    if isinstance(value, str) and value in meanings:
        return meanings[value]
    *others, last = meanings
    raise _failure(field, value, f"{', '.join(others)} or {last}", span)


def _number(value: Json, of_text: Callable[[str], float | None]) -> float | None:
    """Return the value as a number, infinite when it is too large for a float; None when it is not a number."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        return of_text(value)
    if not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value > 0 or -1)


def _failure(field: str, value: Json, expected: str, span: Span | None) -> TemplateFailure:
    return TemplateFailure(f"{field} is {_abbreviate(value)}, expected {expected}", span)


def _abbreviate(value: Json) -> str:
    """Return the value, abbreviated.

    The contents of a list or a mapping are not shown: they may be large, or secret.
    """
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case str():
            return repr(value if len(value) <= _TEXT_SHOWN else f"{value[:_TEXT_SHOWN]}...")
        case int() if abs(value) >= _DIGITS_SHOWN:
            return f"a whole number of {value.bit_length():,} bits"
        case int() | float():
            return str(value)
        case list():
            return f"a list of {len(cast('list[Json]', value))}"
        case dict():
            return f"a mapping of {len(cast('dict[str, Json]', value))}"
        case _:
            return f"a value of type {type(value).__name__}"
