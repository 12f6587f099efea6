"""Strings that denote numbers, durations or booleans: one grammar for documents, JSON Schema and templates."""

from __future__ import annotations

import re

__all__ = [
    "DURATION_PATTERN",
    "FALSE_WORDS",
    "NUMERAL_PATTERN",
    "TRUE_WORDS",
    "UNITS",
    "list_units",
    "parse_duration",
    "parse_number",
]

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
"""Unit of a duration -> seconds."""

NUMERAL_PATTERN = r"\d+(\.\d+)?"
"""A number without a sign."""

_UNIT_PATTERN = "|".join(UNITS)
DURATION_PATTERN = rf"{NUMERAL_PATTERN}\s*({_UNIT_PATTERN})?"
"""A number and its unit; without a unit it is in seconds."""

TRUE_WORDS = frozenset({"true", "yes", "1"})
FALSE_WORDS = frozenset({"false", "no", "0"})
"""Lower-case strings that denote a boolean."""

_NUMERAL = re.compile(NUMERAL_PATTERN)
_DURATION = re.compile(rf"(?P<number>{NUMERAL_PATTERN})\s*(?P<unit>{_UNIT_PATTERN})?")


def parse_number(text: str) -> float | None:
    """Parse a number such as ``3`` or ``2.5``; None if the text is not one. Very long numbers are infinite."""
    match = _NUMERAL.fullmatch(text.strip())
    return float(match[0]) if match else None


def parse_duration(text: str) -> float | None:
    """Parse a duration such as ``30s``, ``1.5m`` or ``2 h`` to seconds; None if the text is not one."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        return None
    return float(match["number"]) * UNITS[match["unit"] or "s"]


def list_units(quote: str = "") -> str:
    """Return the units for a message: ``ms, s, m, h and d``."""
    *units, last = (f"{quote}{unit}{quote}" for unit in UNITS)
    return f"{', '.join(units)} and {last}"
