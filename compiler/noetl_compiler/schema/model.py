"""What a schema is written in: places of a playbook, each a mapping with its properties."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from noetl_compiler.graph import Json

__all__ = ["Model", "Models", "Property", "Schema", "Shape", "without_effect"]

Schema: TypeAlias = dict[str, Json]
"""JSON Schema, as what ``json.dumps`` takes."""


class Property(msgspec.Struct, frozen=True):
    """One key of a place. ``about`` is the sentence an editor shows for it, ``older`` are names that mean the same.

    A property that is not ``required`` may be null, which means that it is absent. ``snippet`` is what an editor
    inserts as its value, with ``$1`` at the cursor; it is written as it is, so templates need quotes of their own.
    """

    name: str
    about: str
    value: Schema = msgspec.field(default_factory=dict[str, Json])
    older: tuple[str, ...] = ()
    required: bool = False
    deprecated: bool = False
    snippet: Json = None

    @property
    def names(self) -> tuple[str, ...]:
        """The name and its older spellings."""
        return (self.name, *self.older)


def without_effect(name: str, why: str) -> Property:
    """Return a key that the compiler ignores with a warning."""
    return Property(name, f"Has no effect: {why}.", deprecated=True)


class Model(msgspec.Struct, frozen=True):
    """A mapping of a playbook.

    ``borrowed`` are places whose properties are allowed here too. ``needs`` are groups of keys of which one must be
    there, or else in one of the mappings ``inside``. Any other key is refused unless the place is ``open``. ``rules``
    are further keywords of JSON Schema.
    """

    name: str
    about: str
    properties: tuple[Property, ...]
    borrowed: tuple[Model, ...] = ()
    needs: tuple[tuple[str, ...], ...] = ()
    open: bool = False
    inside: tuple[str, ...] = ()
    rules: Schema = msgspec.field(default_factory=dict[str, Json])

    @property
    def names(self) -> tuple[str, ...]:
        """Every key allowed here, in every spelling."""
        own = (name for one in self.properties for name in one.names)
        return tuple(dict.fromkeys((*own, *(name for place in self.borrowed for name in place.names))))


class Shape(msgspec.Struct, frozen=True):
    """A type used at several places that is not one mapping: a choice, a list, a word."""

    name: str
    value: Schema


Models: TypeAlias = tuple[Model | Shape, ...]
