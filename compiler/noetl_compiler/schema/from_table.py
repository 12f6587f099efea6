"""Converts the tables of keys (language/constructs) to models of a schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import cast

from noetl_compiler.graph import Json
from noetl_compiler.language.construct import Construct, Key
from noetl_compiler.language.value_types import Choice, Either, ListOf, Nested, Plain, Range, Suggested, ValueType
from noetl_compiler.language.words import Words
from noetl_compiler.schema import values
from noetl_compiler.schema.model import Model, Property, Schema

__all__ = ["model_of", "properties", "property_of", "value_of_type"]

_PLAIN: Mapping[Plain, Schema] = MappingProxyType(
    {
        Plain.ANYTHING: {},
        Plain.TEXT: values.TEXT,
        Plain.NAME: values.NAME,
        Plain.FLAG: values.FLAG,
        Plain.NUMBER: values.NUMBER,
        Plain.INTEGER: {"type": "integer", "minimum": 0},
        Plain.AMOUNT: values.AMOUNT,
        Plain.COUNT: values.COUNT,
        Plain.SECONDS: values.SECONDS,
        Plain.CONDITION: values.CONDITION,
        Plain.HEADER: values.HEADER,
        Plain.MAPPING: values.MAPPING,
        Plain.NAMES: values.NAMES,
    }
)


def model_of(construct: Construct, rules: Schema | None = None) -> Model:
    """Return the model of a construct; ``rules`` are further keywords of JSON Schema."""
    return Model(
        construct.name,
        construct.about,
        properties(construct.keys),
        needs=construct.needs,
        open=construct.open,
        needs_below=construct.needs_below,
        rules=rules or {},
    )


def properties(keys: Iterable[Key]) -> tuple[Property, ...]:
    """Return the properties of the keys, in their order."""
    return tuple(map(property_of, keys))


def property_of(key: Key) -> Property:
    """Return the property of a key."""
    return Property(
        key.name,
        key.about,
        value_of_type(key.type),
        key.older,
        required=key.required,
        deprecated=key.deprecated,
        snippet=cast("Json", key.snippet),
    )


def value_of_type(value: ValueType) -> Schema:
    """Return the schema of a value type."""
    match value:
        case Plain():
            return _PLAIN[value]
        case Choice(known):
            return values.described_words(known.about) if isinstance(known, Words) else values.words(*known)
        case Nested(name, marker_keys):
            return _ref_if_has(name, marker_keys) if marker_keys else values.ref(name)
        case ListOf(item, min_length):
            list_schema = values.list_of(value_of_type(item))
            return {**list_schema, "minItems": min_length} if min_length else list_schema
        case Either(types):
            return values.any_of(*map(value_of_type, types))
        case Range(minimum, maximum, is_integer):
            return {"type": "integer" if is_integer else "number", "minimum": minimum, "maximum": maximum}
        case Suggested(kind, known):
            return {**_PLAIN[kind], "examples": list(known)}


def _ref_if_has(name: str, keys: frozenset[str]) -> Schema:
    return {"if": {"type": "object", **values.has(*sorted(keys))}, "then": values.ref(name)}
