"""The types of the values of keys.

The front end checks values against them; the JSON Schema and ``noetl explain`` describe values by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeAlias

import msgspec

__all__ = [
    "TIMEOUT",
    "Choice",
    "Either",
    "ListOf",
    "Nested",
    "Plain",
    "Range",
    "Suggested",
    "ValueType",
    "one_or_more",
]


class Plain(Enum):
    """A type that needs no further declaration. Its value describes it in messages."""

    ANYTHING = "anything"
    TEXT = "a string"
    NAME = "a non-empty string"
    FLAG = "true or false"
    NUMBER = "a number"
    INTEGER = "an integer of 0 or more"
    AMOUNT = "a number, or a template that yields one"
    COUNT = "a number from 1, or a template that yields one"
    SECONDS = "a duration such as 30 or 30s, or a template that yields one"
    CONDITION = "a template, or true or false"
    HEADER = "the name of a header"
    MAPPING = "a mapping with any keys"
    NAMES = "a mapping with any keys, or a template that yields one"


class Choice(msgspec.Struct, frozen=True):
    """One of these words. Editors show their descriptions, if the table has any (language/words.py)."""

    words: Mapping[str, object]


class Nested(msgspec.Struct, frozen=True):
    """A nested construct, or a shape with several forms (schema/shapes.py). With ``marker_keys``, only a mapping with
    one of these keys is such a construct; anything else has no effect.
    """

    construct: str
    marker_keys: frozenset[str] = frozenset()


class ListOf(msgspec.Struct, frozen=True):
    """A list of at least ``min_length`` items."""

    item: ValueType
    min_length: int = 0


class Either(msgspec.Struct, frozen=True):
    """A value of one of these types."""

    types: tuple[ValueType, ...]


class Range(msgspec.Struct, frozen=True):
    """A number from ``minimum`` to ``maximum``; an integer if ``is_integer``."""

    minimum: float
    maximum: float
    is_integer: bool = False

    @property
    def description(self) -> str:
        """The range, as messages describe it."""
        return f"{'an integer' if self.is_integer else 'a number'} from {self.minimum:g} to {self.maximum:g}"


class Suggested(msgspec.Struct, frozen=True):
    """A value of the type, for which editors propose these."""

    type: Plain
    values: tuple[str, ...]


ValueType: TypeAlias = Plain | Choice | Nested | ListOf | Either | Range | Suggested

TIMEOUT = Either((Plain.SECONDS, Nested("timeout")))
"""A timeout: one duration, or a mapping with one for each part."""


def one_or_more(value: ValueType) -> Either:
    """Return the type of one value, or a list of them."""
    return Either((value, ListOf(value)))
