"""The values of a tool's field as JSON Schema."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from noetl_compiler.graph import Json
from noetl_compiler.language.tool_description import FieldType, ToolField
from noetl_compiler.schema.model import Schema
from noetl_compiler.schema.values import TEMPLATE

__all__ = ["field_value"]

_TYPES: Mapping[FieldType, str] = MappingProxyType(
    {"number": "number", "flag": "boolean", "mapping": "object", "list": "array", "text": "string"}
)
_TYPE_NAMES: Mapping[str, str] = MappingProxyType(
    {"number": "a number", "flag": "true or false", "mapping": "a mapping", "list": "a list"}
)
_PATTERNS: Mapping[str, str] = MappingProxyType(
    {"number": r"^\s*\d+(\.\d+)?\s*$", "flag": "^([Tt]rue|TRUE|[Ff]alse|FALSE|[Yy]es|YES|[Nn]o|NO)$"}
)
"""Patterns of strings that are accepted for these types."""


def field_value(field: ToolField) -> Schema:
    """Return the schema of a field: values of its types, or templates that yield one; any value without types."""
    suggestions = field.examples or field.choices
    examples: Schema = {"examples": list(suggestions)} if suggestions else {}
    default: Schema = {} if field.default is None else {"default": field.default}
    return {**_type_schema(field), **default, **examples}


def _type_schema(field: ToolField) -> Schema:
    allowed_types: list[Json] = list(dict.fromkeys((*(_TYPES[name] for name in field.types), "string")))
    if field.choices:
        words = "|".join(_case_insensitive(word) if field.ignores_case else re.escape(word) for word in field.choices)
        return _string_schema(allowed_types, [f"^({words})$"], f"one of {', '.join(field.choices)}")
    if not field.types:
        return {}
    if "text" in field.types:
        return {"type": allowed_types}
    field_patterns = [_PATTERNS[name] for name in field.types if name in _PATTERNS]
    return _string_schema(allowed_types, field_patterns, " or ".join(_TYPE_NAMES[name] for name in field.types))


def _string_schema(allowed_types: list[Json], patterns: list[str], expected: str) -> Schema:
    """Return a schema in which strings must match a pattern or be a template; other types are not restricted."""
    return {
        "type": allowed_types,
        "pattern": "|".join([*patterns, TEMPLATE]),
        "patternErrorMessage": f"expected {expected}, or a template",
    }


def _case_insensitive(word: str) -> str:
    return "".join(f"[{letter}{letter.lower()}]" for letter in word)
