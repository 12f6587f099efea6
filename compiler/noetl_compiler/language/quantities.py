"""Texts that mean a number, a duration or a truth: one grammar for documents, JSON Schema and templates."""

from __future__ import annotations

import re

__all__ = [
    "DURATION_PATTERN",
    "FALSE_WORDS",
    "NUMERAL_PATTERN",
    "TRUE_WORDS",
    "UNITS",
    "duration",
    "list_units",
    "numeral",
]

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
"""Unit of a duration -> seconds."""

NUMERAL_PATTERN = r"\d+(\.\d+)?"
"""A number without a sign."""

_UNIT_PATTERN = "|".join(UNITS)
DURATION_PATTERN = rf"{NUMERAL_PATTERN}\s*({_UNIT_PATTERN})?"
"""A number and its unit, seconds where there is none."""

TRUE_WORDS = frozenset({"true", "yes", "1"})
FALSE_WORDS = frozenset({"false", "no", "0"})
"""Texts in small letters that mean a truth."""

_NUMERAL = re.compile(NUMERAL_PATTERN)
_DURATION = re.compile(rf"(?P<number>{NUMERAL_PATTERN})\s*(?P<unit>{_UNIT_PATTERN})?")


def numeral(text: str) -> float | None:
    """Return the number that a text such as ``3`` or ``2.5`` means, None when it is none.

    Infinite when it is too long.
    """
    found = _NUMERAL.fullmatch(text.strip())
    return float(found[0]) if found else None


def duration(text: str) -> float | None:
    """Return the seconds that a text such as ``30s``, ``1.5m`` or ``2 h`` means, None when it is none."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        return None
    return float(found["number"]) * UNITS[found["unit"] or "s"]


def list_units(quote: str = "") -> str:
    """Return the units for a message: ``ms, s, m, h and d``."""
    *most, last = (f"{quote}{unit}{quote}" for unit in UNITS)
    return f"{', '.join(most)} and {last}"
