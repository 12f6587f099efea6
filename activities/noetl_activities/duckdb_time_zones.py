"""A replacement for pytz, which DuckDB imports to convert TIMESTAMP WITH TIME ZONE to Python values.

pytz is not installed or needed: results are in UTC, as those of the postgres tool, whatever the time zone of the
machine or session.
"""

from __future__ import annotations

import datetime
import sys

__all__ = ["provide", "timezone"]


_ZERO = datetime.timedelta()


class _Utc(datetime.tzinfo):
    """UTC with pytz's ``localize``; datetime.timezone cannot be subclassed."""

    def localize(self, when: datetime.datetime) -> datetime.datetime:
        """The naive time as a time in UTC."""
        return when.replace(tzinfo=self)

    def utcoffset(self, dt: datetime.datetime | None) -> datetime.timedelta:
        del dt
        return _ZERO

    def dst(self, dt: datetime.datetime | None) -> datetime.timedelta:
        del dt
        return _ZERO

    def tzname(self, dt: datetime.datetime | None) -> str:
        del dt
        return "UTC"


_UTC = _Utc()


def timezone(name: str) -> datetime.tzinfo:
    """UTC for every name: DuckDB requests ``UTC``, and then the zone of the session to convert to."""
    del name
    return _UTC


def provide() -> None:
    """Register this module as pytz."""
    sys.modules["pytz"] = sys.modules[__name__]
