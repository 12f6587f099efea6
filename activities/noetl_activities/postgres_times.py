"""Converts times of Postgres to and from ISO 8601 text without loss.

The Python types that the driver uses have no infinity, no ``24:00:00`` and no year beyond 9999. So the driver passes on
the numbers that Postgres sends (its ``tuple`` format), which are converted here. An interval is converted to seconds,
with months of 30 and years of 365 days.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from noetl_activities.errors import ConfigError
from noetl_activities.postgres_pool import Connection

__all__ = ["INFINITIES", "set_time_codecs"]

Numbers: TypeAlias = tuple[int, ...]
When: TypeAlias = Any
"""A value to send: one of the datetime module, or one of INFINITIES."""

INFINITIES = ("infinity", "-infinity")

_SECOND: Final = 1_000_000
_DAY: Final = 24 * 60 * 60 * _SECOND
_MOST_32, _MOST_64 = 2**31 - 1, 2**63 - 1
_FIRST_DAY = datetime.date(2000, 1, 1).toordinal()
_LOCAL_EPOCH = datetime.datetime(2000, 1, 1)
_EPOCH = _LOCAL_EPOCH.replace(tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)


async def set_time_codecs(connection: Connection) -> None:
    """Set the codecs of a connection. Needs no query, as the types are built in."""
    for name, decode, encode in (
        ("date", _date, _date_sent),
        ("time", _time, _time_sent),
        ("timestamp", _timestamp(_LOCAL_EPOCH), _timestamp_sent(_LOCAL_EPOCH)),
        ("timestamptz", _timestamp(_EPOCH), _timestamp_sent(_EPOCH)),
        ("interval", _interval, _interval_sent),
    ):
        await connection.set_type_codec(name, schema="pg_catalog", decoder=decode, encoder=encode, format="tuple")


def _infinity(number: int, most: int) -> str | None:
    return {most: "infinity", -most - 1: "-infinity"}.get(number)


def _sent_infinity(text: str, most: int) -> Numbers:
    return (most if text == "infinity" else -most - 1,)


def _out_of_range(name: str) -> ConfigError:
    return ConfigError(f"a {name} of the result is outside the years 1 to 9999: cast it to text")


def _date(days: Numbers) -> str:
    try:
        return _infinity(days[0], _MOST_32) or datetime.date.fromordinal(_FIRST_DAY + days[0]).isoformat()
    except (ValueError, OverflowError) as error:
        raise _out_of_range("date") from error


def _date_sent(day: When) -> Numbers:
    return _sent_infinity(day, _MOST_32) if isinstance(day, str) else (day.toordinal() - _FIRST_DAY,)


def _time(microseconds: Numbers) -> str:
    if microseconds[0] == _DAY:
        return "24:00:00"
    return (_LOCAL_EPOCH + _MICROSECOND * microseconds[0]).time().isoformat()


def _time_sent(time: When) -> Numbers:
    return ((datetime.datetime.combine(_LOCAL_EPOCH, time) - _LOCAL_EPOCH) // _MICROSECOND,)


def _timestamp(epoch: datetime.datetime) -> Callable[[Numbers], str]:
    def decode(microseconds: Numbers) -> str:
        try:
            return _infinity(microseconds[0], _MOST_64) or (epoch + _MICROSECOND * microseconds[0]).isoformat()
        except OverflowError as error:
            raise _out_of_range("timestamp") from error

    return decode


def _timestamp_sent(epoch: datetime.datetime) -> Callable[[When], Numbers]:
    def encode(when: When) -> Numbers:
        return _sent_infinity(when, _MOST_64) if isinstance(when, str) else ((when - epoch) // _MICROSECOND,)

    return encode


def _interval(parts: Numbers) -> float | str:
    months, days, microseconds = parts
    if abs(months) >= _MOST_32 and abs(microseconds) >= _MOST_64:
        return "infinity" if months > 0 else "-infinity"
    years, rest = divmod(abs(months), 12)
    days += (years * 365 + rest * 30) * (1 if months > 0 else -1)
    return (days * _DAY + microseconds) / _SECOND


def _interval_sent(length: When) -> Numbers:
    if isinstance(length, str):
        sign = 1 if length == "infinity" else -1
        return tuple(sign * most - (sign < 0) for most in (_MOST_32, _MOST_32, _MOST_64))
    return (0, length.days, length // _MICROSECOND - length.days * _DAY)
