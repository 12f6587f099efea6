"""Converts JSON values to parameters of a prepared statement, and values of Postgres types to text.

The driver requires the Python type of the parameter, but templates often yield text for a number or a time. Text is
parsed as Postgres does.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import decimal
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias, cast

import asyncpg
from asyncpg.prepared_stmt import PreparedStatement

from noetl_activities.errors import ConfigError
from noetl_activities.postgres_times import INFINITIES
from noetl_activities.rows import json_of
from noetl_activities.tool import Json

__all__ = ["NUL", "Prepared", "bound", "sendable", "text_of"]

NUL = "holds a NUL character (U+0000), which Postgres cannot store: leave it out, or keep the bytes as bytea"
"""The problem with such text. The driver would send it, and the server would misread the message (08P01)."""

Prepared: TypeAlias = "PreparedStatement[asyncpg.Record]"

_INTEGER_DIGITS = 19
"""Digits of the largest integer in Postgres. The text ``1e99999999`` is a number of 12 MB, which takes too long to
print."""

_TRUE = frozenset({"true", "t", "yes", "y", "on", "1"})
_FALSE = frozenset({"false", "f", "no", "n", "off", "0"})


def bound(prepared: Prepared, values: Sequence[Json]) -> list[Any]:
    """Return the values for ``$1``, ``$2`` ... Raises ConfigError that names the value with a wrong type."""
    types = [parameter.name for parameter in prepared.get_parameters()]
    if len(types) != len(values):
        raise ConfigError(f"the statement has {len(types)} parameters ($1 ...), params has {len(values)}")
    return [_bind(f"${index}", value, type_) for index, (value, type_) in enumerate(zip(values, types, strict=True), 1)]


def sendable(text: str) -> str:
    """Return the statement. Raises ConfigError if it contains NUL."""
    if "\0" in text:
        raise ConfigError(f"the statement {NUL}")
    return text


def text_of(value: Any) -> str:
    """Return the text, in the format of Postgres, for a value without a JSON type."""
    if isinstance(value, asyncpg.BitString):
        return value.as_string().replace(" ", "")
    return _range(cast("asyncpg.Range[Any]", value)) if isinstance(value, asyncpg.Range) else str(value)


def _range(value: asyncpg.Range[Any]) -> str:
    if value.isempty:
        return "empty"
    lower, upper = ("" if bound is None else str(json_of(bound)) for bound in (value.lower, value.upper))
    return f"{'[' if value.lower_inc else '('}{lower},{upper}{']' if value.upper_inc else ')'}"


def _bind(place: str, value: Json, type_: str) -> Any:
    if value is None or type_ in ("json", "jsonb"):
        return value
    if type_.endswith("[]") and isinstance(value, list):
        return [_bind(place, item, type_.removesuffix("[]")) for item in cast("list[Json]", value)]
    if isinstance(value, str) and "\0" in value:
        raise ConfigError(f"{place} {NUL}")
    try:
        return _READERS.get(type_, _same)(value)
    except (ValueError, TypeError, ArithmeticError, binascii.Error) as error:
        raise ConfigError(f"{place} is {value!r}: the statement expects {type_} there") from error


def _same(value: Json) -> Any:
    return value


def _text(value: Json) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value) if isinstance(value, dict | list | bool) else str(value)


def _integer(value: Json) -> int:
    number = decimal.Decimal(str(value) if isinstance(value, str | float) else int(value))
    if number.adjusted() >= _INTEGER_DIGITS or number != int(number):
        raise ValueError(value)
    return int(number)


def _boolean(value: Json) -> bool:
    text = str(value).strip().lower()
    if text not in _TRUE | _FALSE:
        raise ValueError(value)
    return text in _TRUE


def _or_infinity(read: Callable[[Json], Any]) -> Callable[[Json], Any]:
    """Return a time that may be infinite."""
    return lambda value: value if value in INFINITIES else read(value)


def _timestamp(value: Json) -> datetime.datetime:
    """Return a timestamp without a zone; a zone in the text is ignored, as in Postgres."""
    return datetime.datetime.fromisoformat(value.strip()).replace(tzinfo=None)


def _instant(value: Json) -> datetime.datetime:
    """A number is seconds since 1970; a text without a zone is UTC."""
    if not isinstance(value, str):
        return datetime.datetime.fromtimestamp(value, datetime.UTC)
    when = datetime.datetime.fromisoformat(value.strip())
    return when if when.tzinfo else when.replace(tzinfo=datetime.UTC)


def _date(value: Json) -> datetime.date:
    return datetime.datetime.fromisoformat(value.strip()).date()


def _interval(value: Json) -> datetime.timedelta:
    return datetime.timedelta(seconds=float(value))


def _bytes(value: Json) -> bytes:
    return base64.b64decode(value, validate=True)


_READERS: Mapping[str, Callable[[Json], Any]] = MappingProxyType(
    {
        **dict.fromkeys(("text", "varchar", "bpchar", "name", "inet", "cidr"), _text),
        **dict.fromkeys(("int2", "int4", "int8", "oid"), _integer),
        **dict.fromkeys(("float4", "float8"), float),
        "numeric": lambda value: decimal.Decimal(str(value)),
        "bool": _boolean,
        "timestamp": _or_infinity(_timestamp),
        "timestamptz": _or_infinity(_instant),
        "date": _or_infinity(_date),
        "time": lambda value: datetime.time.fromisoformat(value),
        "interval": _or_infinity(_interval),
        "uuid": lambda value: uuid.UUID(value),
        "bytea": _bytes,
    }
)
