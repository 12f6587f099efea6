"""Converts JSON values to parameters of a prepared statement, and values of Postgres types to text.

The driver requires the Python type of the parameter, but templates often yield a string for a number or a time. Strings
are parsed as Postgres does.
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
from noetl_activities.postgres.json_texts import is_json_type, json_content
from noetl_activities.postgres.times import INFINITIES
from noetl_activities.rows import to_json
from noetl_activities.tool import Json

__all__ = ["CONTAINS_NUL", "Prepared", "bind_values", "check_statement", "postgres_text"]

CONTAINS_NUL = (
    "contains a NUL character (U+0000), which Postgres cannot store: leave it out, or keep the bytes as bytea"
)
"""The end of the message for a string with NUL. The driver would send it, and the server would misread the message
(08P01).
"""

Prepared: TypeAlias = "PreparedStatement[asyncpg.Record]"

_INTEGER_DIGITS = 19
"""Digits of the largest integer in Postgres. The integer of ``1e99999999`` would have 12 MB, and take too long to
print.
"""

_TRUE = frozenset({"true", "t", "yes", "y", "on", "1"})
_FALSE = frozenset({"false", "f", "no", "n", "off", "0"})


def bind_values(prepared_statement: Prepared, values: Sequence[Json]) -> list[Any]:
    """Return the values for ``$1``, ``$2`` ... Raises ConfigError, which names the value with a wrong type."""
    types = [parameter.name for parameter in prepared_statement.get_parameters()]
    if len(types) != len(values):
        parameters = f"{len(types)} parameter{'s' * (len(types) != 1)}"
        raise ConfigError(f"the statement has {parameters} ($1 ...), params has {len(values)}")
    return [
        _bind_value(f"${index}", value, type_)
        for index, (value, type_) in enumerate(zip(values, types, strict=True), 1)
    ]


def check_statement(text: str) -> str:
    """Return the statement. Raises ConfigError if it contains NUL."""
    if "\0" in text:
        raise ConfigError(f"the statement {CONTAINS_NUL}")
    return text


def postgres_text(value: Any) -> str:
    """Return a value without a JSON type as text, in the format of Postgres."""
    if isinstance(value, asyncpg.BitString):
        return value.as_string().replace(" ", "")
    return _range_text(cast("asyncpg.Range[Any]", value)) if isinstance(value, asyncpg.Range) else str(value)


def _range_text(value: asyncpg.Range[Any]) -> str:
    if value.isempty:
        return "empty"
    lower, upper = ("" if limit is None else str(to_json(limit)) for limit in (value.lower, value.upper))
    return f"{'[' if value.lower_inc else '('}{lower},{upper}{']' if value.upper_inc else ')'}"


def _bind_value(parameter: str, value: Json, type_: str) -> Any:
    if value is None:
        return value
    if is_json_type(type_):
        return json_content(value)
    if type_.endswith("[]") and isinstance(value, list):
        return [_bind_value(parameter, item, type_.removesuffix("[]")) for item in cast("list[Json]", value)]
    if isinstance(value, str) and "\0" in value:
        raise ConfigError(f"{parameter} {CONTAINS_NUL}")
    try:
        return _CONVERTERS.get(type_, _identity)(value)
    except (ValueError, TypeError, ArithmeticError, binascii.Error) as error:
        raise ConfigError(f"{parameter} is {value!r}: the statement expects {type_} there") from error


def _identity(value: Json) -> Any:
    return value


def _to_text(value: Json) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value) if isinstance(value, dict | list | bool) else str(value)


def _to_integer(value: Json) -> int:
    number = decimal.Decimal(str(value) if isinstance(value, str | float) else int(value))
    if number.adjusted() >= _INTEGER_DIGITS or number != int(number):
        raise ValueError(value)
    return int(number)


def _to_boolean(value: Json) -> bool:
    text = str(value).strip().lower()
    if text not in _TRUE | _FALSE:
        raise ValueError(value)
    return text in _TRUE


def _or_infinity(convert: Callable[[Json], Any]) -> Callable[[Json], Any]:
    """Return a converter that also accepts INFINITIES."""
    return lambda value: value if value in INFINITIES else convert(value)


def _to_timestamp(value: Json) -> datetime.datetime:
    """Return a timestamp without a zone. A zone in the string is ignored, as in Postgres."""
    return datetime.datetime.fromisoformat(value.strip()).replace(tzinfo=None)


def _to_timestamptz(value: Json) -> datetime.datetime:
    """Return a timestamp with a zone. A number is in seconds since 1970; a string without a zone is in UTC."""
    if not isinstance(value, str):
        return datetime.datetime.fromtimestamp(value, datetime.UTC)
    timestamp = datetime.datetime.fromisoformat(value.strip())
    return timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=datetime.UTC)


def _to_date(value: Json) -> datetime.date:
    return datetime.datetime.fromisoformat(value.strip()).date()


def _to_interval(value: Json) -> datetime.timedelta:
    return datetime.timedelta(seconds=float(value))


def _to_bytes(value: Json) -> bytes:
    return base64.b64decode(value, validate=True)


_CONVERTERS: Mapping[str, Callable[[Json], Any]] = MappingProxyType(
    {
        **dict.fromkeys(("text", "varchar", "bpchar", "name", "inet", "cidr"), _to_text),
        **dict.fromkeys(("int2", "int4", "int8", "oid"), _to_integer),
        **dict.fromkeys(("float4", "float8"), float),
        "numeric": lambda value: decimal.Decimal(str(value)),
        "bool": _to_boolean,
        "timestamp": _or_infinity(_to_timestamp),
        "timestamptz": _or_infinity(_to_timestamptz),
        "date": _or_infinity(_to_date),
        "time": lambda value: datetime.time.fromisoformat(value),
        "interval": _or_infinity(_to_interval),
        "uuid": lambda value: uuid.UUID(value),
        "bytea": _to_bytes,
    }
)
