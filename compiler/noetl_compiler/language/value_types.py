"""What the value of a key may be, in terms that every phase reads in its own way.

The front end checks values by it, the JSON Schema and ``noetl explain`` describe them by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeAlias

import msgspec

__all__ = [
    "TIMEOUT",
    "Below",
    "Choice",
    "Either",
    "ListOf",
    "Plain",
    "Range",
    "Suggested",
    "ValueType",
    "one_or_more",
]


class Plain(Enum):
    """A value without parts."""

    ANYTHING = "anything"
    TEXT = "text"
    NAME = "a text that is not empty"
    FLAG = "true or false"
    NUMBER = "a number"
    INDEX = "the number of an item, from 0"
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


class Below(msgspec.Struct, frozen=True):
    """A construct, or a named choice of several shapes. With ``marks`` only a mapping that has one of these keys is
    meant; anything else has no effect.
    """

    construct: str
    marks: frozenset[str] = frozenset()


class ListOf(msgspec.Struct, frozen=True):
    """A list of ``least`` items or more."""

    item: ValueType
    least: int = 0


class Either(msgspec.Struct, frozen=True):
    """A value of one of these types."""

    types: tuple[ValueType, ...]


class Range(msgspec.Struct, frozen=True):
    """A number between two others, or equal to one of them; with ``whole`` an integer."""

    least: float
    most: float
    whole: bool = False

    @property
    def words(self) -> str:
        """As a message names it."""
        return f"{'an integer' if self.whole else 'a number'} from {self.least:g} to {self.most:g}"


class Suggested(msgspec.Struct, frozen=True):
    """A value of the type, for which editors propose these."""

    type: Plain
    values: tuple[str, ...]


ValueType: TypeAlias = Plain | Choice | Below | ListOf | Either | Range | Suggested

TIMEOUT = Either((Plain.SECONDS, Below("timeout")))
"""How long something may take, as a whole or by its parts."""


def one_or_more(value: ValueType) -> Either:
    """One, or a list of them."""
    return Either((value, ListOf(value)))
