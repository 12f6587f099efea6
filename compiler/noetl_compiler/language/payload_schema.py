"""Checks what people and programs send to a waiting run: the payload of a signal, the form of an approval.

A ``schema`` is the part of JSON Schema listed here, without what runs for long on hostile data: no patterns, no
references, no combinations. A ``form`` is a mapping of field to type, in the words of JSON Schema, or to
``{type, required, choices}``; it is checked as the schema that it stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, cast

__all__ = ["FORM_TYPES", "form_problem", "form_schema", "payload_problem", "schema_problem"]

FORM_TYPES = ("string", "number", "integer", "boolean", "object", "array")
"""The types that a form's field may have."""

_FIELD_KEYS = frozenset({"type", "required", "choices"})

_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "object": "a mapping",
        "array": "a list",
        "string": "text",
        "number": "a number",
        "integer": "a whole number",
        "boolean": "true or false",
        "null": "null",
    }
)
"""The types of JSON Schema, for people."""

_KEYWORDS: Mapping[str, tuple[type, ...]] = MappingProxyType(
    {
        "type": (str, list),
        "properties": (dict,),
        "required": (list,),
        "additionalProperties": (bool,),
        "items": (dict,),
        "enum": (list,),
        "minimum": (int, float),
        "maximum": (int, float),
        "minLength": (int,),
        "maxLength": (int,),
        "minItems": (int,),
        "maxItems": (int,),
        "title": (str,),
        "description": (str,),
    }
)
"""What a schema may say, and the types of each."""

_LIMITS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "minimum": ("number", "{} or more"),
        "maximum": ("number", "{} or less"),
        "minLength": ("string", "text of {} characters or more"),
        "maxLength": ("string", "text of {} characters or fewer"),
        "minItems": ("array", "{} items or more"),
        "maxItems": ("array", "{} items or fewer"),
    }
)


def schema_problem(schema: Any, at: str = "schema") -> str | None:
    """Return why the schema is invalid; None if it is valid."""
    if not isinstance(schema, dict):
        return f"{at} must be a mapping"
    for keyword, value in cast("dict[str, Any]", schema).items():
        found = _keyword_problem(keyword, value, at)
        if found is not None:
            return found
    return None


def _keyword_problem(keyword: str, value: Any, at: str) -> str | None:
    expected = _KEYWORDS.get(keyword)
    if expected is None:
        return f"{at} has the keyword {keyword!r}, which is not supported: use {', '.join(_KEYWORDS)}"
    if not isinstance(value, expected) or (isinstance(value, bool) and bool not in expected):
        return f"{at}.{keyword} has the wrong type"
    if keyword == "type":
        unknown = [one for one in _listed(value) if not isinstance(one, str) or one not in _WORDS]
        return f"{at}.type is {unknown[0]!r}, expected one of {', '.join(_WORDS)}" if unknown else None
    if keyword == "properties":
        properties = cast("dict[str, Any]", value)
        problems = (schema_problem(one, f"{at}.properties.{name}") for name, one in properties.items())
        return next((one for one in problems if one is not None), None)
    return schema_problem(value, f"{at}.items") if keyword == "items" else None


def form_problem(form: Any) -> str | None:
    """Return why the form is invalid; None if it is valid."""
    if not isinstance(form, dict):
        return "form must be a mapping of field to type"
    for name, field in cast("dict[str, Any]", form).items():
        properties = _as_mapping(field)
        if not isinstance(properties.get("type"), str) or properties["type"] not in FORM_TYPES:
            return f"the type of the field {name!r} must be one of {', '.join(FORM_TYPES)}"
        if unknown := sorted(properties.keys() - _FIELD_KEYS):
            return (
                f"the field {name!r} has the unknown key {unknown[0]!r}: its keys are {', '.join(sorted(_FIELD_KEYS))}"
            )
        if not isinstance(properties.get("required", False), bool) or not isinstance(
            properties.get("choices", []), list
        ):
            return f"the field {name!r}: required is true or false, and choices a list"
    return None


def form_schema(form: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a form."""
    fields = {name: _as_mapping(field) for name, field in form.items()}
    return {
        "type": "object",
        "properties": {name: _field_schema(field) for name, field in fields.items()},
        "required": [name for name, field in fields.items() if field.get("required")],
        "additionalProperties": False,
    }


def _as_mapping(field: Any) -> dict[str, Any]:
    """The word for a type is short for a mapping."""
    return cast("dict[str, Any]", field) if isinstance(field, dict) else {"type": field}


def _field_schema(field: Mapping[str, Any]) -> dict[str, Any]:
    choices = {"enum": field["choices"]} if field.get("choices") else {}
    return {"type": field["type"], **choices}


def payload_problem(value: Any, schema: Mapping[str, Any], at: str = "data") -> str | None:
    """Return why the value does not match the schema; None if it does. Values are not shown: they may be secret."""
    types = _listed(schema.get("type", []))
    if types and not any(_TYPES[one](value) for one in types):
        return f"{at} must be {' or '.join(_WORDS[one] for one in types)}"
    if "enum" in schema and not any(_is_same(value, one) for one in schema["enum"]):
        return f"{at} must be one of {', '.join(map(str, schema['enum']))}"
    for keyword, (type_, words) in _LIMITS.items():
        if keyword in schema and _TYPES[type_](value) and not _is_within(keyword, value, schema[keyword]):
            return f"{at} must be {words.format(schema[keyword])}"
    if isinstance(value, dict):
        return _mapping_problem(cast("dict[str, Any]", value), schema, at)
    if isinstance(value, list) and "items" in schema:
        items = (payload_problem(one, schema["items"], f"{at}[{n}]") for n, one in enumerate(cast("list[Any]", value)))
        return next((one for one in items if one is not None), None)
    return None


def _mapping_problem(value: Mapping[str, Any], schema: Mapping[str, Any], at: str) -> str | None:
    properties: Mapping[str, Any] = schema.get("properties", {})
    for name in schema.get("required", []):
        if name not in value:
            return f"{at} lacks {name!r}"
    if schema.get("additionalProperties") is False and (unknown := sorted(value.keys() - properties.keys())):
        return f"{at} has {unknown[0]!r}, expected {', '.join(properties) or 'no fields'}"
    problems = (payload_problem(value[name], one, f"{at}.{name}") for name, one in properties.items() if name in value)
    return next((one for one in problems if one is not None), None)


def _listed(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    return _is_number(value) and (isinstance(value, int) or value.is_integer())


def _is_same(value: Any, other: Any) -> bool:
    """JSON distinguishes true from 1."""
    return isinstance(value, bool) == isinstance(other, bool) and value == other


def _is_within(keyword: str, value: Any, limit: Any) -> bool:
    size = value if keyword in ("minimum", "maximum") else len(value)
    return bool(size >= limit) if keyword.startswith("min") else bool(size <= limit)


_TYPES: Mapping[str, Callable[[Any], bool]] = MappingProxyType(
    {
        "object": lambda value: isinstance(value, dict),
        "array": lambda value: isinstance(value, list),
        "string": lambda value: isinstance(value, str),
        "number": _is_number,
        "integer": _is_integer,
        "boolean": lambda value: isinstance(value, bool),
        "null": lambda value: value is None,
    }
)
