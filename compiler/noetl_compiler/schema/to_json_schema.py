"""Places to JSON Schema, in the words of one dialect."""

from __future__ import annotations

from collections.abc import Collection
from typing import cast

from noetl_compiler.graph import Json
from noetl_compiler.schema.model import Model, Models, Property, Schema, Shape
from noetl_compiler.schema.values import ANYTHING, NOTHING

__all__ = ["definitions"]


def definitions(places: Models, own: Collection[str]) -> Schema:
    """Return the definitions of a dialect. ``own`` are older names that are the dialect's usual ones, so not
    deprecated.
    """
    return {one.name: one.value if isinstance(one, Shape) else _mapping(one, own) for one in places}


def _properties(place: Model, own: Collection[str]) -> Schema:
    """Return every property under each of its names."""
    rendered: Schema = {}
    for one in place.properties:
        rendered[one.name] = _property(one, one.about, deprecated=one.deprecated and one.name not in own)
        for name in one.older:
            rendered[name] = _older(one, name, own)
    return rendered


def _lent(place: Model) -> Schema:
    """A borrowed key is not described again, only allowed."""
    return {name: True for lender in place.borrowed for name in lender.names}


def _older(one: Property, name: str, own: Collection[str]) -> Schema:
    if name in own:
        return _property(one, one.about, deprecated=one.deprecated)
    return _property(one, f'An older name of "{one.name}".', deprecated=True)


def _property(one: Property, about: str, *, deprecated: bool) -> Schema:
    value = one.value if one.required else _or_null(one.value)
    hidden: Schema = {"deprecated": True, "doNotSuggest": True} if deprecated else {}
    return {"description": about, **hidden, **_snippet(one, about), **value}


def _snippet(one: Property, about: str) -> Schema:
    """Return what an editor writes behind the key."""
    body = one.snippet
    return {} if body is None else {"defaultSnippets": [{"label": one.name, "description": about, "body": body}]}


def _or_null(value: Schema) -> Schema:
    """A key without a value counts as absent."""
    if value.keys() <= {"default", "examples"}:
        return {**ANYTHING, **value}
    if "const" in value or value == ANYTHING:
        return value
    if "object" in _list(value.get("type", [])):
        return {**value, "type": [*_list(value["type"]), "null"]}
    if "anyOf" in value:
        return {**value, "anyOf": [*_list(value["anyOf"]), NOTHING]}
    return {"anyOf": [value, NOTHING]}


def _mapping(place: Model, own: Collection[str]) -> Schema:
    required: list[Json] = [one.name for one in place.properties if one.required and not one.older]
    groups = [one.names for one in place.properties if one.required and one.older]
    needs = [_need(group, place) for group in (*groups, *place.needs)]
    lent: list[Json] = [{"$ref": f"#/definitions/{lender.name}"} for lender in place.borrowed]
    constraints: list[Json] = [*lent, *needs, *_list(place.rules.get("allOf", []))]
    return {
        "description": place.about,
        "type": "object",
        **({"required": required} if required else {}),
        "properties": {**_lent(place), **_properties(place, own)},
        **({} if place.open else {"additionalProperties": False}),
        **place.rules,
        **({"allOf": constraints} if constraints else {}),
    }


def _need(group: tuple[str, ...], place: Model) -> Schema:
    present: list[Json] = [{"required": [key]} for key in group]
    within: list[Json] = [{"not": {"properties": {key: {"not": {"anyOf": present}}}}} for key in place.inside]
    return {"anyOf": [*present, *within]}


def _list(value: Json) -> list[Json]:
    return cast("list[Json]", value) if isinstance(value, list) else [value]
