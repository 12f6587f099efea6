"""Texts that mean a number or a duration: one grammar for what a playbook says and for what its templates give."""

from __future__ import annotations

import re

__all__ = ["duration", "numeral"]

_NUMERAL = re.compile(r"\d+(?:\.\d+)?")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def numeral(text: str) -> float | None:
    """The number that a text such as ``3`` or ``2.5`` means, None when it is none. Infinite when it is too long."""
    found = _NUMERAL.fullmatch(text.strip())
    return float(found[0]) if found else None


def duration(text: str) -> float | None:
    """The seconds that a text such as ``30s``, ``1.5m`` or ``2 h`` means, None when it is none."""
    found = _DURATION.fullmatch(text.strip())
    return float(found[1]) * _UNITS[found[2] or "s"] if found else None
