"""How long a server asks to wait (``Retry-After``, RFC 9110, 10.2.3): seconds, or a date."""

from __future__ import annotations

import datetime
import email.utils
import re

__all__ = ["MAX_RETRY_AFTER", "retry_after"]

MAX_RETRY_AFTER = 6 * 3600.0
"""Seconds. Who asks for more is asked again then: a server must not be able to put a run off for a year."""

_MAX_CHARS = 100
_SECONDS = re.compile(r"[0-9]+(\.[0-9]+)?")


def retry_after(header: str | None) -> float | None:
    """Seconds from now, 0 to MAX_RETRY_AFTER. None where the header is neither a number nor a date; it never fails."""
    text = (header or "").strip()
    if not text or len(text) > _MAX_CHARS:
        return None
    if _SECONDS.fullmatch(text):
        return min(float(text), MAX_RETRY_AFTER)
    try:
        when = email.utils.parsedate_to_datetime(text)
        seconds = (_with_zone(when) - datetime.datetime.now(datetime.UTC)).total_seconds()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return min(max(0.0, seconds), MAX_RETRY_AFTER)


def _with_zone(when: datetime.datetime) -> datetime.datetime:
    """A date without a zone, or with ``-0000``, is UTC: HTTP knows no other."""
    return when if when.tzinfo else when.replace(tzinfo=datetime.UTC)
