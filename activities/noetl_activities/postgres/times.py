"""Converts times of Postgres to and from ISO 8601 text without loss.

The Python types of the driver cannot represent infinity, ``24:00:00`` and years after 9999. So the driver passes the
numbers that Postgres sends (its ``tuple`` format) to the functions here. An interval is converted to seconds, with
months of 30 and years of 365 days.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from noetl_activities.errors import ConfigError
from noetl_activities.postgres.pool import Connection

__all__ = ["INFINITIES", "set_time_codecs"]

Numbers: TypeAlias = tuple[int, ...]
TimeValue: TypeAlias = Any
"""A value to send: an object of the datetime module, or one of INFINITIES."""

INFINITIES = ("infinity", "-infinity")

_SECOND: Final = 1_000_000
_DAY: Final = 24 * 60 * 60 * _SECOND
_MAX_INT32, _MAX_INT64 = 2**31 - 1, 2**63 - 1
_FIRST_DAY = datetime.date(2000, 1, 1).toordinal()
_LOCAL_EPOCH = datetime.datetime(2000, 1, 1)
_EPOCH = _LOCAL_EPOCH.replace(tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)


async def set_time_codecs(connection: Connection) -> None:
    """Set the codecs of a connection. This needs no query, as the types are built in."""
    for name, decode, encode in (
        ("date", _decode_date, _encode_date),
        ("time", _decode_time, _encode_time),
        ("timestamp", _timestamp_decoder(_LOCAL_EPOCH), _timestamp_encoder(_LOCAL_EPOCH)),
        ("timestamptz", _timestamp_decoder(_EPOCH), _timestamp_encoder(_EPOCH)),
        ("interval", _decode_interval, _encode_interval),
    ):
        await connection.set_type_codec(name, schema="pg_catalog", decoder=decode, encoder=encode, format="tuple")


def _decode_infinity(number: int, maximum: int) -> str | None:
    return {maximum: "infinity", -maximum - 1: "-infinity"}.get(number)


def _encode_infinity(text: str, maximum: int) -> Numbers:
    return (maximum if text == "infinity" else -maximum - 1,)


def _out_of_range_error(name: str) -> ConfigError:
    return ConfigError(f"a {name} of the result is outside the years 1 to 9999: cast it to text")


def _decode_date(days: Numbers) -> str:
    try:
        return _decode_infinity(days[0], _MAX_INT32) or datetime.date.fromordinal(_FIRST_DAY + days[0]).isoformat()
    except (ValueError, OverflowError) as error:
        raise _out_of_range_error("date") from error


def _encode_date(day: TimeValue) -> Numbers:
    return _encode_infinity(day, _MAX_INT32) if isinstance(day, str) else (day.toordinal() - _FIRST_DAY,)


def _decode_time(microseconds: Numbers) -> str:
    if microseconds[0] == _DAY:
        return "24:00:00"
    return (_LOCAL_EPOCH + _MICROSECOND * microseconds[0]).time().isoformat()


def _encode_time(time: TimeValue) -> Numbers:
    return ((datetime.datetime.combine(_LOCAL_EPOCH, time) - _LOCAL_EPOCH) // _MICROSECOND,)


def _timestamp_decoder(epoch: datetime.datetime) -> Callable[[Numbers], str]:
    def decode(microseconds: Numbers) -> str:
        try:
            return _decode_infinity(microseconds[0], _MAX_INT64) or (epoch + _MICROSECOND * microseconds[0]).isoformat()
        except OverflowError as error:
            raise _out_of_range_error("timestamp") from error

    return decode


def _timestamp_encoder(epoch: datetime.datetime) -> Callable[[TimeValue], Numbers]:
    def encode(value: TimeValue) -> Numbers:
        return _encode_infinity(value, _MAX_INT64) if isinstance(value, str) else ((value - epoch) // _MICROSECOND,)

    return encode


def _decode_interval(parts: Numbers) -> float | str:
    months, days, microseconds = parts
    if abs(months) >= _MAX_INT32 and abs(microseconds) >= _MAX_INT64:
        return "infinity" if months > 0 else "-infinity"
    years, remaining_months = divmod(abs(months), 12)
    days += (years * 365 + remaining_months * 30) * (1 if months > 0 else -1)
    return (days * _DAY + microseconds) / _SECOND


def _encode_interval(interval: TimeValue) -> Numbers:
    if isinstance(interval, str):
        sign = 1 if interval == "infinity" else -1
        return tuple(sign * maximum - (sign < 0) for maximum in (_MAX_INT32, _MAX_INT32, _MAX_INT64))
    return (0, interval.days, interval // _MICROSECOND - interval.days * _DAY)
