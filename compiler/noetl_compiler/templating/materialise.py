"""Convert the value of a template to plain JSON or to text.

Templates read views: objects whose ``materialise()`` returns their JSON value. The result of a rendering is plain JSON;
values whose text differs between processes (functions, generators) are refused.
"""

from __future__ import annotations

import datetime
import decimal
import math
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from itertools import chain
from typing import Any

import msgspec
from jinja2.runtime import Undefined

from noetl_compiler.gc_pause import CollectorPause
from noetl_compiler.graph import Json
from noetl_compiler.templating.budget import NODES_A_CONTAINER, NotDataError, RenderBudget, check_number, check_text

__all__ = ["materialise", "text_of"]

_MAX_DEPTH = 200
_CHARS_A_STEP, _STEPS_A_CONTAINER_AS_TEXT = 10, 100
_STEPS_A_FLOAT_AS_TEXT, _STEPS_A_SCALAR_AS_TEXT = 15, 50
_NODES_ONE_BY_ONE, _NODES_AN_ITEM_ONE_BY_ONE = 100, 25
_SMALLEST, _LARGEST = -(2**63), 2**63
_WRITTEN_BY_PYTHON = (int, float, datetime.date, datetime.time, decimal.Decimal, Undefined)
_LEAVES = frozenset({str, int, float, bool, type(None)})
_PLAIN_CONTAINERS = frozenset({list, dict})
_PLAIN = _LEAVES | _PLAIN_CONTAINERS
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
        if not _SMALLEST <= value <= _LARGEST:
            meter.digits(value.bit_length())
        return str(value)
    if value is None or isinstance(value, _WRITTEN_BY_PYTHON):
        meter.step(_STEPS_A_FLOAT_AS_TEXT if value.__class__ is float else _STEPS_A_SCALAR_AS_TEXT)
        return str(value)
    meter.step(_STEPS_A_CONTAINER_AS_TEXT)
    meter.weigh(value, 2)
    text = str(materialise(value, meter))
    meter.step(len(text) // _CHARS_A_STEP)
    meter.chars(len(text))
    return text


def _copied(value: Any, meter: RenderBudget, depth: int) -> Json:
    """Copy a container: at once if it is plain JSON throughout, the common case, otherwise item by item."""
    with CollectorPause():
        if value.__class__ is not tuple and _is_plain(value, meter, depth):
            return msgspec.to_builtins(value)
    meter.nodes(_NODES_ONE_BY_ONE + _NODES_AN_ITEM_ONE_BY_ONE * len(value))
    if value.__class__ is not dict:
        return [materialise(item, meter, depth + 1) for item in value]
    return {_key(key): materialise(item, meter, depth + 1) for key, item in value.items()}


def _is_plain(value: Any, meter: RenderBudget, depth: int) -> bool:
    """Whether a value has only lists, leaves, and dicts with text keys. Charges for each level before it is read.

    Raises :class:`NotDataError` for nan, infinity and deep nesting. Others are checked when a template makes them.
    """
    level: Collection[Any] = [value]
    kinds: set[type] = {value.__class__}
    while level:
        if depth > _MAX_DEPTH:
            raise NotDataError(f"the value is nested deeper than {_MAX_DEPTH} levels")
        meter.nodes(sum(map(len, level)) + NODES_A_CONTAINER * len(level))
        if dict in kinds and not _has_text_keys(level, kinds):
            return False
        items = _values_of(level, kinds)
        kinds = set(map(type, items))
        if not kinds <= _PLAIN:
            return False
        if float in kinds:
            _check_floats(items)
        level = _containers_in(items, kinds)
        depth += 1
    return True


def _has_text_keys(level: Collection[Any], kinds: set[type]) -> bool:
    mappings = level if len(kinds) == 1 else [one for one in level if one.__class__ is dict]
    return _TEXT.issuperset(map(type, chain.from_iterable(mappings)))


def _values_of(level: Collection[Any], kinds: set[type]) -> Collection[Any]:
    if len(level) == 1:
        [one] = level
        values: Collection[Any] = one.values() if one.__class__ is dict else one
        return values
    if dict not in kinds:
        return list(chain.from_iterable(level))
    return list(chain.from_iterable([one.values() if one.__class__ is dict else one for one in level]))


def _containers_in(items: Collection[Any], kinds: set[type]) -> Collection[Any]:
    if kinds <= _LEAVES:
        return []
    if kinds <= _PLAIN_CONTAINERS:
        return items
    return [item for item in items if item.__class__ in _PLAIN_CONTAINERS]


def _check_floats(items: Collection[Any]) -> None:
    floats = [item for item in items if item.__class__ is float]
    if not all(map(math.isfinite, floats)):
        for number in floats:
            check_number(number)


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
    raise NotDataError(f"the template yields a {type(value).__name__}, which is not data")
