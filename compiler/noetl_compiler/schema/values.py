"""The values that a property may have, as the front ends read them.

Where the engine accepts a template in place of a number, a boolean or a mapping, a string with a template is allowed
here. A number or a boolean is allowed in place of a string: ``version: 2`` is valid.

``patternErrorMessage``, ``enumDescriptions`` and ``doNotSuggest`` are not keywords of JSON Schema, so validators ignore
them; yaml-language-server and VS Code support them.
"""

from __future__ import annotations

from collections.abc import Mapping

from noetl_compiler.language.quantities import DURATION_PATTERN, NUMERAL_PATTERN, list_units
from noetl_compiler.language.tools import HEADER_NAME
from noetl_compiler.schema.model import Schema

__all__ = [
    "AMOUNT",
    "ANYTHING",
    "CONDITION",
    "COUNT",
    "FLAG",
    "HEADER",
    "MAPPING",
    "NAME",
    "NAMES",
    "NOTHING",
    "NUMBER",
    "SECONDS",
    "TEMPLATE",
    "TEXT",
    "TIMEOUT",
    "any_of",
    "described_words",
    "first_of",
    "has",
    "list_of",
    "one_or_more",
    "ref",
    "words",
]

TEMPLATE = r"\{\{|\{%"
_CONSTANT = r"^\s*([Tt]rue|TRUE|[Ff]alse|FALSE|[Yy]es|YES|[Nn]o|NO|1|0)\s*$"

NOTHING: Schema = {"not": {"not": {"type": "null"}}}
"""Null, with a double negation, because editors would propose a type that is named directly."""

ANYTHING: Schema = {"anyOf": [True]}
"""Any value. It is not empty, because editors insert the colon after a key only if its value has a schema."""

TEXT: Schema = {"anyOf": [{"type": "string"}, {"not": {"type": ["object", "array", "null"]}}]}
NAME: Schema = {"anyOf": [{"type": "string", "minLength": 1}, {"not": {"type": ["string", "object", "array", "null"]}}]}
FLAG: Schema = {"type": "boolean"}
HEADER: Schema = {
    "type": "string",
    "pattern": f"^{HEADER_NAME}$",
    "patternErrorMessage": "expected the name of a header",
}
NUMBER: Schema = {"type": "number"}
MAPPING: Schema = {"type": "object"}

NAMES: Schema = {
    "type": ["object", "string"],
    "pattern": TEMPLATE,
    "patternErrorMessage": "expected a mapping, or a template that yields one",
}
"""A mapping of names to values, or a template that yields one."""

AMOUNT: Schema = {
    "type": ["number", "string"],
    "minimum": 0,
    "pattern": rf"^\s*{NUMERAL_PATTERN}\s*$|{TEMPLATE}",
    "patternErrorMessage": "expected a number, or a template that yields one",
    "examples": [3, "{{ workload.limit }}"],
}

COUNT: Schema = AMOUNT | {"minimum": 1}

SECONDS: Schema = {
    "type": ["number", "string"],
    "minimum": 0,
    "pattern": rf"^\s*{DURATION_PATTERN}\s*$|{TEMPLATE}",
    "patternErrorMessage": f'expected a duration such as 30 or "30s"; units are {list_units()}',
    "examples": [30, "500ms", "5m"],
}

CONDITION: Schema = {
    "type": ["boolean", "integer", "string"],
    "minimum": 0,
    "maximum": 1,
    "pattern": rf"{_CONSTANT}|{TEMPLATE}",
    "patternErrorMessage": 'expected a template such as "{{ ... }}", or true or false',
    "examples": ["{{ output.status == 'error' }}"],
}


def ref(name: str) -> Schema:
    """Return a reference to the definition of this name."""
    return {"$ref": f"#/definitions/{name}"}


def words(*choices: str) -> Schema:
    """Return the schema of a value that must be one of these words."""
    return {"enum": list(choices)}


def described_words(meanings: Mapping[str, str]) -> Schema:
    """Return the schema of a value that must be one of these words, with their meanings."""
    return {"enum": list(meanings), "enumDescriptions": list(meanings.values())}


def any_of(*values: Schema) -> Schema:
    """Return the schema of a value that matches any of ``values``."""
    return {"anyOf": list(values)}


TIMEOUT = any_of(SECONDS, ref("timeout"))
"""A timeout: its total, or a mapping of its parts."""


def list_of(value: Schema) -> Schema:
    """Return the schema of a list of such values."""
    return {"type": "array", "items": value}


def one_or_more(value: Schema) -> Schema:
    """Return the schema of one such value, or a list of them."""
    return any_of(value, list_of(value))


def has(*keys: str) -> Schema:
    """Return a schema that matches mappings with at least one of these keys."""
    return {"anyOf": [{"required": [key]} for key in keys]}


def first_of(*cases: tuple[Schema, Schema], otherwise: Schema) -> Schema:
    """Return a schema that applies the value of the first case whose test matches, or ``otherwise``."""
    branch = otherwise
    for test, value in reversed(cases):
        branch = {"if": test, "then": value, "else": branch}
    return branch
