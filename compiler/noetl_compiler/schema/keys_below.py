"""Which keys are allowed below a key, in any dialect and place."""

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

    ``known`` keys of the language; ``is_open`` if only the author's own names are there.
    """

    known: frozenset[str] = frozenset()
    is_open: bool = False


_NOTHING = KeysBelow()


def keys_below(key: str) -> KeysBelow:
    """Return the keys of the mappings that may be the value of a key."""
    return _keys_below(key) if key in _all_keys() else _NOTHING


@cache
def _all_keys() -> frozenset[str]:
    return frozenset(name for dialect in DIALECTS for one in _properties(models_of(dialect)) for name in one.names)


@cache
def _keys_below(key: str) -> KeysBelow:
    known: set[str] = set()
    is_open = False
    for dialect in DIALECTS:
        places = models_of(dialect)
        by_name = {place.name: place for place in places}
        for found in _properties(places):
            if key in found.names:
                known |= _names(found.value, by_name)
                is_open = is_open or "object" in _types(found.value)
    return KeysBelow(frozenset(known), is_open and not known)


def _properties(places: Models) -> Iterator[Property]:
    return (one for place in places if isinstance(place, Model) for one in place.properties)


def _names(value: Json, places: Mapping[str, Model | Shape]) -> set[str]:
    """Return the keys of the places that a value refers to, through choices and lists."""
    found: set[str] = set()
    seen: set[str] = set()
    waiting = list(_refs(value))
    while waiting:
        name = waiting.pop()
        if name in seen or name not in places:
            continue
        seen.add(name)
        place = places[name]
        found.update(place.names if isinstance(place, Model) else ())
        waiting += _refs(place.rules if isinstance(place, Model) else place.value)
    return found


def _refs(value: Json) -> Iterator[str]:
    for keyword, found in _keywords(value):
        if keyword == "$ref":
            yield str(found).removeprefix(_REF)


def _types(value: Json) -> set[Json]:
    """Return the types in the schema of a value, without those behind references."""
    types = (found for keyword, found in _keywords(value) if keyword == "type")
    return {one for found in types for one in (cast("list[Json]", found) if isinstance(found, list) else [found])}


def _keywords(value: Json) -> Iterator[tuple[str, Json]]:
    if isinstance(value, dict):
        for keyword, found in cast("dict[str, Json]", value).items():
            yield keyword, found
            yield from _keywords(found)
    elif isinstance(value, list):
        for item in cast("list[Json]", value):
            yield from _keywords(item)
