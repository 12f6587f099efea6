"""Formats times for people: in UTC, to the second."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["utc_cell", "utc_text"]


def utc_text(time: datetime) -> str:
    """Return a time for a sentence: ``2026-11-23 08:00:00 UTC``."""
    return f"{utc_cell(time)} UTC"


def utc_cell(time: datetime) -> str:
    """Return a time for a table whose header names the time zone: ``2026-11-23 08:00:00``."""
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
