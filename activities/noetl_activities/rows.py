"""Result sets of SQL tools as JSON."""

from __future__ import annotations

import base64
import datetime
import decimal
import ipaddress
import json
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, cast

from noetl_activities.tool import Json

__all__ = ["Statement", "json_of", "sql_result", "statement"]

_NETWORKS = (ipaddress.IPv4Network, ipaddress.IPv6Network)
"""Types that are iterable, but converted to text like other database types."""

_INFINITE = {
    id(pattern): text
    for pattern, text in (
        (datetime.date.max, "infinity"),
        (datetime.datetime.max, "infinity"),
        (datetime.date.min, "-infinity"),
        (datetime.datetime.min, "-infinity"),
    )
}
"""The objects that DuckDB returns for infinite times, compared by identity: the last day of 9999 is another object."""

Statement: TypeAlias = dict[str, Json]
"""{rows: [map], columns: [name], row_count}"""


def statement(
    columns: list[str], rows: Iterable[Iterable[Any]], row_count: int | None = None, other: Callable[[Any], str] = str
) -> Statement:
    """Return the result of a statement; for one without rows, ``row_count`` is the number of changed rows. ``other``:
    see json_of.
    """
    maps = [dict(zip(columns, (json_of(value, other) for value in row), strict=True)) for row in rows]
    return {"rows": maps, "columns": columns, "row_count": len(maps) if row_count is None else row_count}


def sql_result(statements: list[Statement]) -> dict[str, Json]:
    """Return the result of the last statement; if there are several, with a list of all of them."""
    result: dict[str, Json] = {"status": "success", **statements[-1], "statement_count": len(statements)}
    return {**result, "statements": statements} if len(statements) > 1 else result


def json_of(value: Any, other: Callable[[Any], str] = str) -> Json:
    """Return a database value as JSON: numbers stay numbers, times become ISO text, instants in UTC whatever the time
    zone of the session, bytes base64. NaN and infinity are left to non_finite.py. ``other`` converts values of types
    that only the database has.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float | decimal.Decimal):
        return _number(value)
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.UTC).isoformat()
    if isinstance(value, datetime.date | datetime.time):
        return _INFINITE.get(id(value)) or value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(bytes(cast("bytes", value))).decode()
    if isinstance(value, Mapping):
        return {_name(key): json_of(item, other) for key, item in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, Iterable) and not isinstance(value, _NETWORKS):
        return [json_of(item, other) for item in cast("Iterable[Any]", value)]
    return other(value)


def _name(key: Any) -> str:
    """Return the key of a mapping as text."""
    name = json_of(key)
    return name if isinstance(name, str) else json.dumps(name)


def _number(value: float | decimal.Decimal) -> int | float:
    if isinstance(value, decimal.Decimal) and value.is_finite() and _is_small_integer(value):
        return int(value)
    return float(value)


def _is_small_integer(value: decimal.Decimal) -> bool:
    return abs(value) < 2**63 and value == value.to_integral_value()
