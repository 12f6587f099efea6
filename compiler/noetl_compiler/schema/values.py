"""The values that a property may have, as the front ends read them.

Where the engine takes a number, a truth or a mapping, a text with a template in it often does as well; where it does
not, none is allowed here either. A text may always be written as a number or a truth: ``version: 2`` is fine.

``patternErrorMessage``, ``enumDescriptions`` and ``doNotSuggest`` are no words of JSON Schema, so validators read
over them; yaml-language-server and VS Code know them.
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
    "open_words",
    "ref",
    "words",
]

TEMPLATE = r"\{\{|\{%"
_CONSTANT = r"^\s*([Tt]rue|TRUE|[Ff]alse|FALSE|[Yy]es|YES|[Nn]o|NO|1|0)\s*$"

NOTHING: Schema = {"not": {"not": {"type": "null"}}}
"""Null; said twice around, for editors propose whatever type is named outright."""

ANYTHING: Schema = {"anyOf": [True]}
"""Any value; editors write the colon behind a key only if something is said of its value."""

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
"""Names with their values, or a template that yields such a mapping."""

AMOUNT: Schema = {
    "type": ["number", "string"],
    "minimum": 0,
    "pattern": rf"^\s*{NUMERAL_PATTERN}\s*$|{TEMPLATE}",
    "patternErrorMessage": "expected a number, or a template that yields one",
    "examples": [3, "{{ workload.limit }}"],
}

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


def ref(place: str) -> Schema:
    """Return a reference to the definition ``place``."""
    return {"$ref": f"#/definitions/{place}"}


def words(*allowed: str) -> Schema:
    """The schema of a value that must be one of these words."""
    return {"enum": list(allowed)}


def described_words(meanings: Mapping[str, str]) -> Schema:
    """The schema of a value that must be one of these words, each with its meaning."""
    return {"enum": list(meanings), "enumDescriptions": list(meanings.values())}


def open_words(*known: str) -> Schema:
    """The schema of any text, for which editors propose these words."""
    return {**NAME, "examples": list(known)}


def any_of(*values: Schema) -> Schema:
    """Any of several shapes."""
    return {"anyOf": list(values)}


TIMEOUT = any_of(SECONDS, ref("timeout"))
"""How long something may take, as a whole or by its parts."""


def list_of(value: Schema) -> Schema:
    """Return the schema of a list of such values."""
    return {"type": "array", "items": value}


def one_or_more(value: Schema) -> Schema:
    """One, or a list of them."""
    return any_of(value, list_of(value))


def has(*keys: str) -> Schema:
    """The test whether a mapping has one of these keys."""
    return {"anyOf": [{"required": [key]} for key in keys]}


def first_of(*cases: tuple[Schema, Schema], otherwise: Schema) -> Schema:
    """Return a schema that applies the value of the first case whose test matches, or ``otherwise``."""
    chosen = otherwise
    for test, value in reversed(cases):
        chosen = {"if": test, "then": value, "else": chosen}
    return chosen
