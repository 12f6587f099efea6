"""What a template made, as plain JSON or as text.

Templates read views: objects with ``materialise()``, which returns the JSON they stand for. Nothing but plain
JSON leaves a rendering, and nothing whose text would differ from process to process (a function, an open
generator) becomes text.
"""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any

from jinja2.runtime import Undefined

from noetl_compiler.graph import Json
from noetl_compiler.meter import Meter

__all__ = ["NotDataError", "materialise", "text_of"]

_MAX_DEPTH = 200
_SMALLEST, _LARGEST = -(2**63), 2**64 - 1


class NotDataError(TypeError):
    """The template's value is not data."""


def materialise(value: Any, meter: Meter, depth: int = 0) -> Json:
    """A fresh JSON value. Mappings become dicts with text keys, other iterables lists, dates ISO text,
    decimals floats.

    An undefined value raises jinja2's UndefinedError, what is no data :class:`NotDataError`.
    """
    if value is None or type(value) in (bool, float):
        return value
    if isinstance(value, str | int):
        return _checked(value)
    meter.step()
    if depth > _MAX_DEPTH:
        raise NotDataError(f"the value is nested deeper than {_MAX_DEPTH} levels")
    if isinstance(value, Undefined):
        bool(value)  # ours raises; Jinja's own is an "if" without "else"
        return None
    if hasattr(value, "materialise"):
        return materialise(value.materialise(), meter, depth + 1)
    kind = value.__class__
    if issubclass(kind, Mapping):
        return _dict(value, meter, depth)
    if issubclass(kind, Set):
        return _list(sorted(value, key=repr), meter, depth)
    if issubclass(kind, Iterable) and not issubclass(kind, bytes):
        return _list(value, meter, depth)
    return _scalar(value)


def text_of(value: Any, meter: Meter) -> str:
    """The value inside of a text, as Jinja writes it: ``None``, ``True``, ``{'a': 1}``."""
    if type(value) is str:
        meter.chars(len(value))
        return value
    if value is None or isinstance(value, bool | int | float | datetime.date | datetime.time | decimal.Decimal):
        return str(value)
    if isinstance(value, Undefined):
        return str(value)
    data = materialise(value, meter)
    meter.weigh(data)
    return str(data)


def _dict(value: Mapping[Any, Any], meter: Meter, depth: int) -> dict[str, Json]:
    meter.step(len(value))
    return {
        key if type(key) is str else str(_scalar(key)): materialise(item, meter, depth + 1)
        for key, item in value.items()
    }


def _list(value: Iterable[Any], meter: Meter, depth: int) -> list[Json]:
    result: list[Json] = []
    for item in value:
        meter.step()
        result.append(materialise(item, meter, depth + 1))
    return result


def _checked(value: str | int) -> str | int:
    """The value when JSON can carry it: whole characters, numbers of 64 bits."""
    if isinstance(value, str):
        if not value.isascii():
            value.encode("utf-8")
        return str(value)
    if not _SMALLEST <= value <= _LARGEST:
        raise NotDataError("the template gives a number of more than 64 bits")
    return value


_SCALARS: tuple[tuple[type, Callable[[Any], Json]], ...] = (
    (str, str),
    (int, int),
    (float, float),
    (type(None), lambda value: value),
    (datetime.date, lambda value: value.isoformat()),
    (datetime.time, lambda value: value.isoformat()),
    (datetime.timedelta, lambda value: value.total_seconds()),
    (decimal.Decimal, float),
    (uuid.UUID, str),
    (bytes, lambda value: value.decode("utf-8")),
)


def _scalar(value: Any) -> Json:
    for kind, convert in _SCALARS:
        if isinstance(value, kind):
            return convert(value)
    raise NotDataError(f"the template gives a {type(value).__name__}, which is not data")
