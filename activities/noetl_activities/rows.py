"""Converts the rows and values of databases to JSON."""

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

__all__ = ["Statement", "sql_result", "statement_result", "to_json"]

_NETWORKS = (ipaddress.IPv4Network, ipaddress.IPv6Network)
"""Types that are iterable, but are converted to text."""

_INFINITE_TIMES = {
    id(pattern): text
    for pattern, text in (
        (datetime.date.max, "infinity"),
        (datetime.datetime.max, "infinity"),
        (datetime.date.min, "-infinity"),
        (datetime.datetime.min, "-infinity"),
    )
}
"""The id of each object that DuckDB returns for an infinite time. They are compared by identity, because the last day
of 9999 is equal to one of them.
"""

Statement: TypeAlias = dict[str, Json]
"""The result of a statement: ``{rows: [mapping], columns: [name], row_count}``."""


def statement_result(
    columns: list[str],
    rows: Iterable[Iterable[Any]],
    row_count: int | None = None,
    fallback: Callable[[Any], str] = str,
) -> Statement:
    """Return the result of a statement. ``row_count`` is the number of changed rows of one that returns no rows.
    ``fallback``: see to_json.
    """
    mappings = [dict(zip(columns, (to_json(value, fallback) for value in row), strict=True)) for row in rows]
    return {"rows": mappings, "columns": columns, "row_count": len(mappings) if row_count is None else row_count}


def sql_result(statements: list[Statement]) -> dict[str, Json]:
    """Return the result of the last statement; if there are several, with the list of all results."""
    result: dict[str, Json] = {"status": "success", **statements[-1], "statement_count": len(statements)}
    return {**result, "statements": statements} if len(statements) > 1 else result


def to_json(value: Any, fallback: Callable[[Any], str] = str) -> Json:
    """Return a database value as JSON: times as ISO text, timestamps with a zone in UTC, bytes as base64. Does not
    replace NaN and infinity (non_finite.py). ``fallback`` converts values of types that only the database has.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float | decimal.Decimal):
        return _number(value)
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.UTC).isoformat()
    if isinstance(value, datetime.date | datetime.time):
        return _INFINITE_TIMES.get(id(value)) or value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(bytes(cast("bytes", value))).decode()
    if isinstance(value, Mapping):
        return {_key_text(key): to_json(item, fallback) for key, item in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, Iterable) and not isinstance(value, _NETWORKS):
        return [to_json(item, fallback) for item in cast("Iterable[Any]", value)]
    return fallback(value)


def _key_text(key: Any) -> str:
    """Return the key of a mapping as text."""
    name = to_json(key)
    return name if isinstance(name, str) else json.dumps(name)


def _number(value: float | decimal.Decimal) -> int | float:
    if isinstance(value, decimal.Decimal) and value.is_finite() and _is_small_integer(value):
        return int(value)
    return float(value)


def _is_small_integer(value: decimal.Decimal) -> bool:
    return abs(value) < 2**63 and value == value.to_integral_value()
