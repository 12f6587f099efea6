"""What a field of a tool may be, by the types that its table in noetl_compiler.language.tools tells."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

from noetl_compiler.language.tools import METHODS
from noetl_compiler.schema.model import Schema
from noetl_compiler.schema.values import TEMPLATE

__all__ = ["field_value"]

_TYPES: Mapping[str, str] = MappingProxyType(
    {"number": "number", "flag": "boolean", "mapping": "object", "list": "array", "text": "string", "method": "string"}
)
_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "number": "a number",
        "flag": "true or false",
        "mapping": "a mapping",
        "list": "a list",
        "method": f"one of {', '.join(sorted(METHODS))}",
    }
)
_METHOD = "|".join("".join(f"[{letter}{letter.lower()}]" for letter in method) for method in sorted(METHODS))
_WRITTEN: Mapping[str, str] = MappingProxyType(
    {
        "number": r"^\s*\d+(\.\d+)?\s*$",
        "flag": "^([Tt]rue|TRUE|[Ff]alse|FALSE|[Yy]es|YES|[Nn]o|NO)$",
        "method": f"^({_METHOD})$",
    }
)
"""How these are written as text."""


def field_value(types: Collection[str]) -> Schema:
    """A value of one of the types, or a template that yields one; any value when there are none."""
    if not types:
        return {}
    allowed = list(dict.fromkeys((*(_TYPES[name] for name in types), "string")))
    if "text" in types:
        return {"type": list(allowed)}
    patterns = [_WRITTEN[name] for name in types if name in _WRITTEN]
    expected = " or ".join(_WORDS[name] for name in types)
    return {
        "type": list(allowed),
        "pattern": "|".join([*patterns, TEMPLATE]),
        "patternErrorMessage": f"expected {expected}, or a template",
    }
