"""Timestamps: parse those in playbooks, and format those in results."""

from __future__ import annotations

import datetime
import math

__all__ = ["format_timestamp", "parse_timestamp"]

_LATEST = 253_402_300_799
"""The last second of the year 9999."""


def parse_timestamp(value: object) -> int | None:
    """Parse a timestamp: a string in ISO 8601 (UTC unless it has an offset), or a number of seconds since 1970.

    Returns milliseconds since 1970, UTC; None for anything else.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return round(value * 1000) if math.isfinite(value) and 0 <= value <= _LATEST else None
    if not isinstance(value, str):
        return None
    try:
        timestamp = datetime.datetime.fromisoformat(value.strip())
        aware_timestamp = timestamp if timestamp.tzinfo is not None else timestamp.replace(tzinfo=datetime.UTC)
        return round(aware_timestamp.timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def format_timestamp(milliseconds: int) -> str:
    """Format milliseconds since 1970 in ISO 8601, UTC: ``2026-11-23T20:15:00.250+00:00``."""
    return datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.UTC).isoformat(timespec="milliseconds")
