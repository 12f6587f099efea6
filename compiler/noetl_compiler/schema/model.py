"""The models from which a schema is built: mappings of a playbook with their properties."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from noetl_compiler.graph import Json

__all__ = ["Model", "Models", "Property", "Schema", "Shape", "without_effect"]

Schema: TypeAlias = dict[str, Json]
"""A JSON Schema as a value for ``json.dumps``."""


class Property(msgspec.Struct, frozen=True):
    """A key of a model. ``about`` is the sentence that editors show for it, ``older`` are its older names.

    A property that is not ``required`` may be null, which means absent. ``snippet`` is what editors insert as its
    value, with ``$1`` at the cursor; it is inserted unchanged, so templates in it need quotes.
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


def without_effect(name: str, reason: str) -> Property:
    """Return a key that the compiler ignores with a warning."""
    return Property(name, f"Has no effect: {reason}.", deprecated=True)


class Model(msgspec.Struct, frozen=True):
    """A mapping of a playbook.

    ``included`` are models whose properties are allowed here too. Of each group of keys in ``needs``, one is required,
    here or in the mapping of one of the keys ``needs_below``. Unknown keys are errors unless the model is ``open``.
    ``rules`` are further keywords of JSON Schema.
    """

    name: str
    about: str
    properties: tuple[Property, ...]
    included: tuple[Model, ...] = ()
    needs: tuple[tuple[str, ...], ...] = ()
    open: bool = False
    needs_below: tuple[str, ...] = ()
    rules: Schema = msgspec.field(default_factory=dict[str, Json])

    @property
    def names(self) -> tuple[str, ...]:
        """All keys that are allowed here, with their older names."""
        own_names = (name for key in self.properties for name in key.names)
        return tuple(dict.fromkeys((*own_names, *(name for model in self.included for name in model.names))))


class Shape(msgspec.Struct, frozen=True):
    """A named schema that is not a mapping with fixed keys: a choice, a list or a word."""

    name: str
    value: Schema


Models: TypeAlias = tuple[Model | Shape, ...]
