"""Parses the ``Retry-After`` header (RFC 9110, 10.2.3): seconds, or a date."""

from __future__ import annotations

import datetime
import email.utils
import re

__all__ = ["MAX_RETRY_AFTER", "retry_after"]

MAX_RETRY_AFTER = 6 * 3600.0
"""Maximum delay, in seconds: otherwise a server could delay a run for a year."""

_MAX_CHARS = 100
_SECONDS = re.compile(r"[0-9]+(\.[0-9]+)?")


def retry_after(header: str | None) -> float | None:
    """Return the delay in seconds, at most MAX_RETRY_AFTER; None if the header has neither a number nor a date."""
    text = (header or "").strip()
    if not text or len(text) > _MAX_CHARS:
        return None
    if _SECONDS.fullmatch(text):
        return min(float(text), MAX_RETRY_AFTER)
    try:
        date = email.utils.parsedate_to_datetime(text)
        seconds = (_with_zone(date) - datetime.datetime.now(datetime.UTC)).total_seconds()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return min(max(0.0, seconds), MAX_RETRY_AFTER)


def _with_zone(date: datetime.datetime) -> datetime.datetime:
    """Return the date in UTC if it has no zone, or ``-0000``: HTTP dates are in UTC."""
    return date if date.tzinfo else date.replace(tzinfo=datetime.UTC)
