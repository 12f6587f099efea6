"""Converts models to JSON Schema for one dialect."""

from __future__ import annotations

from collections.abc import Collection
from typing import cast

from noetl_compiler.graph import Json
from noetl_compiler.schema.model import Model, Models, Property, Schema, Shape
from noetl_compiler.schema.values import ANYTHING, NOTHING

__all__ = ["definitions"]


def definitions(models: Models, accepted_older_names: Collection[str]) -> Schema:
    """Return the definitions of a dialect; ``accepted_older_names`` are not deprecated in it."""
    return {
        model.name: model.value if isinstance(model, Shape) else _mapping_schema(model, accepted_older_names)
        for model in models
    }


def _properties(model: Model, accepted_older_names: Collection[str]) -> Schema:
    """Return every property under each of its names."""
    schema: Schema = {}
    for key in model.properties:
        schema[key.name] = _property(key, key.about, deprecated=key.deprecated and key.name not in accepted_older_names)
        for name in key.older:
            schema[name] = _older_name_property(key, name, accepted_older_names)
    return schema


def _included_keys(model: Model) -> Schema:
    """Return the keys of included models, which are allowed here and described there."""
    return {name: True for included_model in model.included for name in included_model.names}


def _older_name_property(key: Property, name: str, accepted_older_names: Collection[str]) -> Schema:
    if name in accepted_older_names:
        return _property(key, key.about, deprecated=key.deprecated)
    return _property(key, f'An older name of "{key.name}".', deprecated=True)


def _property(key: Property, about: str, *, deprecated: bool) -> Schema:
    value = key.value if key.required else _or_null(key.value)
    editor_flags: Schema = {"deprecated": True, "doNotSuggest": True} if deprecated else {}
    return {"description": about, **editor_flags, **_snippet(key, about), **value}


def _snippet(key: Property, about: str) -> Schema:
    """Return the keyword for the snippet that editors insert after the key."""
    body = key.snippet
    return {} if body is None else {"defaultSnippets": [{"label": key.name, "description": about, "body": body}]}


def _or_null(value: Schema) -> Schema:
    """Allow null, because a key without a value counts as absent."""
    if value.keys() <= {"default", "examples"}:
        return {**ANYTHING, **value}
    if "const" in value or value == ANYTHING:
        return value
    if "object" in _list(value.get("type", [])):
        return {**value, "type": [*_list(value["type"]), "null"]}
    if "anyOf" in value:
        return {**value, "anyOf": [*_list(value["anyOf"]), NOTHING]}
    return {"anyOf": [value, NOTHING]}


def _mapping_schema(model: Model, accepted_older_names: Collection[str]) -> Schema:
    required: list[Json] = [key.name for key in model.properties if key.required and not key.older]
    groups = [key.names for key in model.properties if key.required and key.older]
    needs = [_need_schema(group, model) for group in (*groups, *model.needs)]
    included: list[Json] = [{"$ref": f"#/definitions/{included_model.name}"} for included_model in model.included]
    constraints: list[Json] = [*included, *needs, *_list(model.rules.get("allOf", []))]
    return {
        "description": model.about,
        "type": "object",
        **({"required": required} if required else {}),
        "properties": {**_included_keys(model), **_properties(model, accepted_older_names)},
        **({} if model.open else {"additionalProperties": False}),
        **model.rules,
        **({"allOf": constraints} if constraints else {}),
    }


def _need_schema(group: tuple[str, ...], model: Model) -> Schema:
    """Return a schema that requires one key of the group, here or in one of the mappings ``model.needs_below``."""
    has_key: list[Json] = [{"required": [key]} for key in group]
    nested_has_key: list[Json] = [
        {"not": {"properties": {key: {"not": {"anyOf": has_key}}}}} for key in model.needs_below
    ]
    return {"anyOf": [*has_key, *nested_has_key]}


def _list(value: Json) -> list[Json]:
    return cast("list[Json]", value) if isinstance(value, list) else [value]
