"""Result sets of SQL tools as JSON."""

from __future__ import annotations

import base64
import datetime
import decimal
import ipaddress
import math
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, cast

from noetl_activities.tool import Json

__all__ = ["Statement", "json_of", "sql_result", "statement"]

_NETWORKS = (ipaddress.IPv4Network, ipaddress.IPv6Network)
"""Iterable over all their addresses: a text like any other database type."""

Statement: TypeAlias = dict[str, Json]
"""{rows: [map], columns: [name], row_count}"""


def statement(columns: list[str], rows: Iterable[Iterable[Any]], row_count: int | None = None) -> Statement:
    """One statement's result; ``row_count`` of a statement without rows is what it changed."""
    maps = [dict(zip(columns, map(json_of, row), strict=True)) for row in rows]
    return {"rows": maps, "columns": columns, "row_count": len(maps) if row_count is None else row_count}


def sql_result(statements: list[Statement]) -> dict[str, Json]:
    """The last statement's result on top, each of several beneath."""
    result: dict[str, Json] = {"status": "success", **statements[-1], "statement_count": len(statements)}
    return {**result, "statements": statements} if len(statements) > 1 else result


def json_of(value: Any) -> Json:
    """A database value as JSON: numbers stay numbers, times are ISO text, bytes base64, what JSON has no number for
    (NaN, infinity) is null.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float | decimal.Decimal):
        return _number(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(bytes(cast("bytes", value))).decode()
    if isinstance(value, Mapping):
        return {str(key): json_of(item) for key, item in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, Iterable) and not isinstance(value, _NETWORKS):
        return [json_of(item) for item in cast("Iterable[Any]", value)]
    return str(value)


def _number(value: float | decimal.Decimal) -> int | float | None:
    if not math.isfinite(value):
        return None
    if isinstance(value, decimal.Decimal) and value == value.to_integral_value() and abs(value) < 2**63:
        return int(value)
    return float(value)
