"""Check what people and programs send to a waiting run: the payload of a signal, the form of an approval.

A ``schema`` has the keywords of JSON Schema listed here. Patterns, references and combinations are left out, because
they can be slow on hostile data. A ``form`` is a mapping of field to type, in the words of JSON Schema, or to
``{type, required, choices}``; it is checked as the schema that it stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, cast

__all__ = ["FORM_TYPES", "form_error", "form_schema", "payload_error", "payload_template", "schema_error"]

FORM_TYPES = ("string", "number", "integer", "boolean", "object", "array")
"""The types that a form's field may have."""

_FIELD_KEYS = frozenset({"type", "required", "choices"})

_TYPE_PHRASES: Mapping[str, str] = MappingProxyType(
    {
        "object": "a mapping",
        "array": "a list",
        "string": "a string",
        "number": "a number",
        "integer": "a whole number",
        "boolean": "true or false",
        "null": "null",
    }
)
"""The types of JSON Schema, as messages name them."""

_KEYWORD_TYPES: Mapping[str, tuple[type, ...]] = MappingProxyType(
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
"""Keywords that a schema may have, and the types of their values."""

_LIMITS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "minimum": ("number", "{} or more"),
        "maximum": ("number", "{} or less"),
        "minLength": ("string", "a string of {} characters or more"),
        "maxLength": ("string", "a string of {} characters or fewer"),
        "minItems": ("array", "{} items or more"),
        "maxItems": ("array", "{} items or fewer"),
    }
)


def schema_error(schema: Any, path: str = "schema") -> str | None:
    """Return why the schema is invalid; None if it is valid."""
    if not isinstance(schema, dict):
        return f"{path} must be a mapping"
    for keyword, value in cast("dict[str, Any]", schema).items():
        error = _keyword_error(keyword, value, path)
        if error is not None:
            return error
    return None


def _keyword_error(keyword: str, value: Any, path: str) -> str | None:
    expected = _KEYWORD_TYPES.get(keyword)
    if expected is None:
        return f"{path} has the keyword {keyword!r}, which is not supported: use {', '.join(_KEYWORD_TYPES)}"
    if not isinstance(value, expected) or (isinstance(value, bool) and bool not in expected):
        return f"{path}.{keyword} has the wrong type"
    if keyword == "type":
        unknown = [item for item in _as_list(value) if not isinstance(item, str) or item not in _TYPE_PHRASES]
        return f"{path}.type is {unknown[0]!r}, expected one of {', '.join(_TYPE_PHRASES)}" if unknown else None
    if keyword == "properties":
        properties = cast("dict[str, Any]", value)
        errors = (schema_error(item, f"{path}.properties.{name}") for name, item in properties.items())
        return next((error for error in errors if error is not None), None)
    return schema_error(value, f"{path}.items") if keyword == "items" else None


def form_error(form: Any) -> str | None:
    """Return why the form is invalid; None if it is valid."""
    if not isinstance(form, dict):
        return "form must be a mapping of field to type"
    for name, field in cast("dict[str, Any]", form).items():
        properties = _as_mapping(field)
        if unknown := [key for key in properties if key not in _FIELD_KEYS]:
            hint = f"its keys are {', '.join(sorted(_FIELD_KEYS))}"
            return f"the field {name!r} has the unknown key {unknown[0]!r}: {hint}"
        if not isinstance(properties.get("type"), str) or properties["type"] not in FORM_TYPES:
            return f"the type of the field {name!r} must be one of {', '.join(FORM_TYPES)}"
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
    """Return the field of a form as a mapping: a bare type is short for one."""
    return cast("dict[str, Any]", field) if isinstance(field, dict) else {"type": field}


def _field_schema(field: Mapping[str, Any]) -> dict[str, Any]:
    choices = {"enum": field["choices"]} if field.get("choices") else {}
    return {"type": field["type"], **choices}


def payload_error(value: Any, schema: Mapping[str, Any], path: str = "data") -> str | None:
    """Return why the value does not match the schema; None if it does. Values are not shown: they may be secret."""
    types = _as_list(schema.get("type", []))
    if types and not any(_TYPE_TESTS[item](value) for item in types):
        return f"{path} must be {' or '.join(_TYPE_PHRASES[item] for item in types)}"
    if "enum" in schema and not any(_is_same(value, item) for item in schema["enum"]):
        return f"{path} must be one of {', '.join(map(str, schema['enum']))}"
    for keyword, (type_, words) in _LIMITS.items():
        if keyword in schema and _TYPE_TESTS[type_](value) and not _is_within(keyword, value, schema[keyword]):
            return f"{path} must be {words.format(schema[keyword])}"
    if isinstance(value, dict):
        return _mapping_error(cast("dict[str, Any]", value), schema, path)
    if isinstance(value, list) and "items" in schema:
        errors = (
            payload_error(item, schema["items"], f"{path}[{index}]")
            for index, item in enumerate(cast("list[Any]", value))
        )
        return next((error for error in errors if error is not None), None)
    return None


def payload_template(schema: Mapping[str, Any]) -> Any:
    """Return the smallest payload that has all that the schema requires, with a placeholder such as ``<number>`` for
    each value that a person has to fill in; None if the schema requires nothing.
    """
    if schema.get("enum"):
        return f"<{'|'.join(map(str, schema['enum']))}>"
    required: list[str] = schema.get("required") or []
    properties: Mapping[str, Mapping[str, Any]] = schema.get("properties") or {}
    if required:
        values: dict[str, Any] = {name: payload_template(properties.get(name) or {}) for name in required}
        return {name: "<value>" if value is None else value for name, value in values.items()}
    match next((item for item in _as_list(schema.get("type", [])) if item != "null"), None):
        case None:
            return None
        case "object":
            return {}
        case "array":
            item = payload_template(schema.get("items") or {})
            return [] if item is None else [item]
        case type_:
            return f"<{type_}>"


def _mapping_error(value: Mapping[str, Any], schema: Mapping[str, Any], path: str) -> str | None:
    properties: Mapping[str, Any] = schema.get("properties", {})
    for name in schema.get("required", []):
        if name not in value:
            return f"{path} lacks {name!r}"
    if schema.get("additionalProperties") is False and (unknown := sorted(value.keys() - properties.keys())):
        return f"{path} has {unknown[0]!r}, expected {', '.join(properties) or 'no fields'}"
    errors = (
        payload_error(value[name], subschema, f"{path}.{name}")
        for name, subschema in properties.items()
        if name in value
    )
    return next((error for error in errors if error is not None), None)


def _as_list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    return _is_number(value) and (isinstance(value, int) or value.is_integer())


def _is_same(value: Any, other: Any) -> bool:
    """Compare as JSON does, which distinguishes true from 1."""
    return isinstance(value, bool) == isinstance(other, bool) and value == other


def _is_within(keyword: str, value: Any, limit: Any) -> bool:
    size = value if keyword in ("minimum", "maximum") else len(value)
    return bool(size >= limit) if keyword.startswith("min") else bool(size <= limit)


_TYPE_TESTS: Mapping[str, Callable[[Any], bool]] = MappingProxyType(
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
