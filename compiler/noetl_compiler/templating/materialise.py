"""Convert the value of a template to plain JSON or to text.

Templates read views: objects whose ``materialise()`` returns their JSON value. The result of a rendering is plain JSON;
values whose text differs between processes (functions, generators) are refused.
"""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from typing import Any

from jinja2.runtime import Undefined

from noetl_compiler.graph import Json
from noetl_compiler.templating.budget import NODES_A_CONTAINER, NotDataError, RenderBudget, check_number, check_text

__all__ = ["materialise", "text_of"]

_MAX_DEPTH = 200
_CHARS_A_STEP = 4
_LEAVES = frozenset({str, int, float, bool, type(None)})
_TEXT = frozenset({str})


def materialise(value: Any, meter: RenderBudget, depth: int = 0) -> Json:
    """Return a new JSON value. Mappings become dicts with text keys, other iterables lists, dates ISO text, decimals
    floats.

    Raises jinja2's UndefinedError for an undefined value, :class:`NotDataError` for anything that is not data.
    """
    kind = value.__class__
    if kind is dict or kind is list or kind is tuple:
        return _copied(value, meter, depth)
    if kind in _LEAVES or isinstance(value, Undefined):
        return _leaf(value)
    if hasattr(value, "materialise"):
        return materialise(value.materialise(), meter, depth + 1)
    if issubclass(kind, Mapping):
        return _copied(dict(value), meter, depth)
    if issubclass(kind, Set):
        return _copied(sorted(value, key=repr), meter, depth)
    if issubclass(kind, Iterable) and not issubclass(kind, str | bytes):
        return [materialise(item, meter, depth + 1) for item in _counted(value, meter)]
    return _scalar(value)


def text_of(value: Any, meter: RenderBudget) -> str:
    """Return the text of a value inside a longer text, as Jinja renders it: ``None``, ``True``, ``{'a': 1}``."""
    if type(value) is str:
        meter.chars(len(value))
        return value
    if type(value) is int:
        meter.long_number(value.bit_length())
    if value is None or isinstance(value, bool | int | float | datetime.date | datetime.time | decimal.Decimal):
        return str(value)
    if isinstance(value, Undefined):
        return str(value)
    meter.weigh(value)
    text = str(materialise(value, meter))
    meter.step(len(text) // _CHARS_A_STEP)
    meter.chars(len(text))
    return text


def _copied(value: Any, meter: RenderBudget, depth: int) -> Json:
    """Copy a plain container. One without nested containers, the common case, is copied at once."""
    meter.nodes(len(value) + NODES_A_CONTAINER)
    if depth > _MAX_DEPTH:
        raise NotDataError(f"the value is nested deeper than {_MAX_DEPTH} levels")
    if value.__class__ is not dict:
        if _are_leaves(value):
            return list(value)
        return [materialise(item, meter, depth + 1) for item in value]
    if _are_leaves(value.values()) and _TEXT.issuperset(map(type, value)):
        return value.copy()
    return {_key(key): materialise(item, meter, depth + 1) for key, item in value.items()}


def _are_leaves(values: Collection[Any]) -> bool:
    """Whether no value is a container or needs a conversion. Raises :class:`NotDataError` for nan and infinity.

    Other leaves are checked when a template creates them.
    """
    kinds = set(map(type, values))
    if not kinds <= _LEAVES:
        return False
    if float in kinds:
        for number in values:
            if type(number) is float:
                check_number(number)
    return True


def _key(key: Any) -> str:
    return key if type(key) is str else str(_scalar(key))


def _counted(items: Iterable[Any], meter: RenderBudget) -> Iterator[Any]:
    for item in items:
        meter.nodes(1)
        yield item


def _leaf(value: Any) -> Json:
    if isinstance(value, str):
        check_text(value)
    elif isinstance(value, int | float):
        check_number(value)
    elif isinstance(value, Undefined):
        bool(value)  # ours raises; Jinja's own is an "if" without "else"
        return None
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
