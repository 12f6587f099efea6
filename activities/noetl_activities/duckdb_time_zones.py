"""What DuckDB asks of the package pytz to make Python values of TIMESTAMP WITH TIME ZONE.

pytz is not installed, and is not needed: a result has the instant in UTC, as that of the postgres tool has, whatever
the time zone of the machine or of the session is.
"""

from __future__ import annotations

import datetime
import sys

__all__ = ["provide", "timezone"]


_ZERO = datetime.timedelta()


class _Utc(datetime.tzinfo):
    """UTC with pytz's ``localize``; datetime.timezone cannot be subclassed."""

    def localize(self, when: datetime.datetime) -> datetime.datetime:
        """The time, which has no zone, as one in UTC."""
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
    """UTC for every name: DuckDB asks for ``UTC``, and then for the session's zone to convert to."""
    del name
    return _UTC


def provide() -> None:
    """Let DuckDB find this module when it imports pytz."""
    sys.modules["pytz"] = sys.modules[__name__]
