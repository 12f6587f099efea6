"""What a field of a tool may be, as JSON Schema."""

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
_WORDS: Mapping[str, str] = MappingProxyType(
    {"number": "a number", "flag": "true or false", "mapping": "a mapping", "list": "a list"}
)
_WRITTEN: Mapping[str, str] = MappingProxyType(
    {"number": r"^\s*\d+(\.\d+)?\s*$", "flag": "^([Tt]rue|TRUE|[Ff]alse|FALSE|[Yy]es|YES|[Nn]o|NO)$"}
)
"""How these are written as text."""


def field_value(field: ToolField) -> Schema:
    """Return a value of one of its types, or a template that yields one; any value when it has none."""
    proposed = field.examples or field.choices
    examples: Schema = {"examples": list(proposed)} if proposed else {}
    default: Schema = {} if field.default is None else {"default": field.default}
    return {**_value(field), **default, **examples}


def _value(field: ToolField) -> Schema:
    allowed: list[Json] = list(dict.fromkeys((*(_TYPES[name] for name in field.types), "string")))
    if field.choices:
        words = "|".join(_any_case(word) if field.ignores_case else re.escape(word) for word in field.choices)
        return _text(allowed, [f"^({words})$"], f"one of {', '.join(field.choices)}")
    if not field.types:
        return {}
    if "text" in field.types:
        return {"type": allowed}
    written = [_WRITTEN[name] for name in field.types if name in _WRITTEN]
    return _text(allowed, written, " or ".join(_WORDS[name] for name in field.types))


def _text(allowed: list[Json], patterns: list[str], expected: str) -> Schema:
    """Text of one of the patterns or a template; other types are as they are."""
    return {
        "type": allowed,
        "pattern": "|".join([*patterns, TEMPLATE]),
        "patternErrorMessage": f"expected {expected}, or a template",
    }


def _any_case(word: str) -> str:
    return "".join(f"[{letter}{letter.lower()}]" for letter in word)
