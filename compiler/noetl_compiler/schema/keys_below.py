"""The keys that are allowed below a key, in any dialect and construct."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple, cast

from noetl_compiler.graph import Json
from noetl_compiler.schema import DIALECTS, models_of
from noetl_compiler.schema.model import Model, Models, Property, Shape

__all__ = ["KeysBelow", "keys_below"]

_REF = "#/definitions/"


class KeysBelow(NamedTuple):
    """The keys that a mapping may have.

    ``known_keys`` are keys of the language. ``is_open``: the mapping has only names that the author chooses.
    """

    known_keys: frozenset[str] = frozenset()
    is_open: bool = False


_NO_KEYS = KeysBelow()


def keys_below(key: str) -> KeysBelow:
    """Return the keys of the mappings that may be the value of a key."""
    return _keys_below(key) if key in _all_keys() else _NO_KEYS


@cache
def _all_keys() -> frozenset[str]:
    return frozenset(name for dialect in DIALECTS for key in _properties(models_of(dialect)) for name in key.names)


@cache
def _keys_below(key: str) -> KeysBelow:
    known_keys: set[str] = set()
    is_open = False
    for dialect in DIALECTS:
        models = models_of(dialect)
        models_by_name = {model.name: model for model in models}
        for property_ in _properties(models):
            if key in property_.names:
                known_keys |= _names(property_.value, models_by_name)
                is_open = is_open or "object" in _types(property_.value)
    return KeysBelow(frozenset(known_keys), is_open and not known_keys)


def _properties(models: Models) -> Iterator[Property]:
    return (key for model in models if isinstance(model, Model) for key in model.properties)


def _names(value: Json, models: Mapping[str, Model | Shape]) -> set[str]:
    """Return the keys of the models to which a value refers, also through choices and lists."""
    names: set[str] = set()
    visited_names: set[str] = set()
    waiting = list(_refs(value))
    while waiting:
        name = waiting.pop()
        if name in visited_names or name not in models:
            continue
        visited_names.add(name)
        model = models[name]
        names.update(model.names if isinstance(model, Model) else ())
        waiting += _refs(model.rules if isinstance(model, Model) else model.value)
    return names


def _refs(value: Json) -> Iterator[str]:
    for keyword, keyword_value in _keywords(value):
        if keyword == "$ref":
            yield str(keyword_value).removeprefix(_REF)


def _types(value: Json) -> set[Json]:
    """Return the types in the schema of a value, without those behind references."""
    entries = (types for keyword, types in _keywords(value) if keyword == "type")
    return {type_ for types in entries for type_ in (cast("list[Json]", types) if isinstance(types, list) else [types])}


def _keywords(value: Json) -> Iterator[tuple[str, Json]]:
    if isinstance(value, dict):
        for keyword, keyword_value in cast("dict[str, Json]", value).items():
            yield keyword, keyword_value
            yield from _keywords(keyword_value)
    elif isinstance(value, list):
        for item in cast("list[Json]", value):
            yield from _keywords(item)
