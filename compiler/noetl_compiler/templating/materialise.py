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
from noetl_compiler.templating.budget import NODES_PER_CONTAINER, NotDataError, RenderBudget, check_number, check_text

__all__ = ["materialise", "to_text"]

_MAX_DEPTH = 200
_CHARS_PER_STEP, _STEPS_PER_CONTAINER_AS_TEXT = 10, 100
_STEPS_PER_FLOAT_AS_TEXT, _STEPS_PER_SCALAR_AS_TEXT = 15, 50
_NODES_ONE_BY_ONE, _NODES_PER_ITEM_ONE_BY_ONE = 100, 25
_MIN_WORD, _MAX_WORD = -(2**63), 2**63
_STRING_BY_PYTHON = (int, float, datetime.date, datetime.time, decimal.Decimal, Undefined)
_LEAVES = frozenset({str, int, float, bool, type(None)})
_PLAIN_CONTAINERS = frozenset({list, dict})
_PLAIN = _LEAVES | _PLAIN_CONTAINERS
_STRINGS = frozenset({str})


def materialise(value: Any, budget: RenderBudget, depth: int = 0) -> Json:
    """Return a new JSON value. Mappings become dicts with string keys, other iterables lists, dates ISO 8601 strings,
    decimals floats.

    Raises jinja2's UndefinedError for an undefined value, :class:`NotDataError` for anything that is not data.
    """
    kind = value.__class__
    if kind is dict or kind is list or kind is tuple:
        return _copy_container(value, budget, depth)
    if kind in _LEAVES or isinstance(value, Undefined):
        return _check_leaf(value)
    if hasattr(value, "materialise"):
        return materialise(value.materialise(), budget, depth + 1)
    if issubclass(kind, Mapping):
        return _copy_container(dict(value), budget, depth)
    if issubclass(kind, Set):
        return _copy_container(sorted(value, key=repr), budget, depth)
    if issubclass(kind, Iterable) and not issubclass(kind, str | bytes):
        return [materialise(item, budget, depth + 1) for item in _charge_each(value, budget)]
    return _convert_scalar(value)


def to_text(value: Any, budget: RenderBudget) -> str:
    """Return the text of a value inside a longer text, as Jinja renders it: ``None``, ``True``, ``{'a': 1}``."""
    if type(value) is str:
        budget.charge_chars(len(value))
        return value
    if type(value) is int:
        if not _MIN_WORD <= value <= _MAX_WORD:
            budget.charge_digits(value.bit_length())
        return str(value)
    if value is None or isinstance(value, _STRING_BY_PYTHON):
        budget.charge_steps(_STEPS_PER_FLOAT_AS_TEXT if value.__class__ is float else _STEPS_PER_SCALAR_AS_TEXT)
        return str(value)
    budget.charge_steps(_STEPS_PER_CONTAINER_AS_TEXT)
    budget.charge_deep_read(value, 2)
    text = str(materialise(value, budget))
    budget.charge_steps(len(text) // _CHARS_PER_STEP)
    budget.charge_chars(len(text))
    return text


def _copy_container(value: Any, budget: RenderBudget, depth: int) -> Json:
    """Copy a container: at once if it is plain JSON throughout, the common case, otherwise item by item."""
    with CollectorPause():
        if value.__class__ is not tuple and _is_plain(value, budget, depth):
            return msgspec.to_builtins(value)
    budget.charge_nodes(_NODES_ONE_BY_ONE + _NODES_PER_ITEM_ONE_BY_ONE * len(value))
    if value.__class__ is not dict:
        return [materialise(item, budget, depth + 1) for item in value]
    return {_text_key(key): materialise(item, budget, depth + 1) for key, item in value.items()}


def _is_plain(value: Any, budget: RenderBudget, depth: int) -> bool:
    """Whether a value consists of lists, leaves, and dicts with string keys. Charges for each level before it is read.

    Raises :class:`NotDataError` for nan, infinity and deep nesting. Other scalars are checked when a template creates
    them.
    """
    level: Collection[Any] = [value]
    kinds: set[type] = {value.__class__}
    while level:
        if depth > _MAX_DEPTH:
            raise NotDataError(f"the value is nested deeper than {_MAX_DEPTH} levels")
        budget.charge_nodes(sum(map(len, level)) + NODES_PER_CONTAINER * len(level))
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
    mappings = level if len(kinds) == 1 else [container for container in level if container.__class__ is dict]
    return _STRINGS.issuperset(map(type, chain.from_iterable(mappings)))


def _values_of(level: Collection[Any], kinds: set[type]) -> Collection[Any]:
    if len(level) == 1:
        [container] = level
        values: Collection[Any] = container.values() if container.__class__ is dict else container
        return values
    if dict not in kinds:
        return list(chain.from_iterable(level))
    return list(chain.from_iterable([inner.values() if inner.__class__ is dict else inner for inner in level]))


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


def _text_key(key: Any) -> str:
    return key if type(key) is str else str(_convert_scalar(key))


def _charge_each(items: Iterable[Any], budget: RenderBudget) -> Iterator[Any]:
    for item in items:
        budget.charge_nodes(1)
        yield item


def _check_leaf(value: Any) -> Json:
    if isinstance(value, str):
        check_text(value)
    elif isinstance(value, int | float):
        check_number(value)
    elif isinstance(value, Undefined):
        bool(value)  # raises for an undefined name; Jinja's own is the value of an "if" without "else"
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


def _convert_scalar(value: Any) -> Json:
    for kind, convert in _SCALARS:
        if isinstance(value, kind):
            return convert(value)
    raise NotDataError(f"the template yields a {type(value).__name__}, which is not data")
