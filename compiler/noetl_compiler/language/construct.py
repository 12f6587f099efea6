"""The classes of the tables of keys: a construct is a mapping of a playbook, with its keys.

The tables are in ``language/constructs``. They tell the front end which keys a mapping may have and under which names,
the JSON Schema and ``noetl explain`` what the keys mean, and ``migrate`` in which order to write them, which defaults
to omit, and what to note about them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from noetl_compiler.language.value_types import Plain, ValueType

__all__ = ["Construct", "Extension", "Key", "without_effect"]


class Extension(NamedTuple):
    """A key that other engines of v10 do not support: its path, and what v10 cannot express without it (``gap``)."""

    path: str
    gap: str


class Key(msgspec.Struct, frozen=True):
    """One key of a construct. ``about`` describes it for people, ``older`` are its older names.

    A key that is not ``required`` may be null, which means that it is absent. Editors do not propose ``deprecated``
    keys; ``successor`` is what a warning advises to write instead. ``no_effect`` is the reason why the key is ignored.
    ``snippet`` is what an editor inserts as the value, with ``$1`` at the cursor.

    The other fields are for ``migrate``. It omits a value that is the ``default``. In a playbook of v10 it restores a
    default that is written, and every value of a ``restored`` key, which it omits if it has no effect. It copies a
    ``verbatim`` key, because the syntax tree does not contain it, and notes each use of an ``extension``.
    """

    name: str
    about: str
    type: ValueType = Plain.ANYTHING
    older: tuple[str, ...] = ()
    required: bool = False
    deprecated: bool = False
    successor: str = ""
    no_effect: str = ""
    snippet: object = None
    default: object = None
    restored: bool = False
    verbatim: bool = False
    extension: Extension | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The name and its older spellings."""
        return (self.name, *self.older)


def without_effect(name: str, reason: str, value: ValueType = Plain.ANYTHING) -> Key:
    """Return a key that the compiler ignores, with a warning that gives the reason."""
    return Key(name, f"Has no effect: {reason}.", value, deprecated=True, no_effect=reason)


@dataclass(frozen=True)
class Construct:
    """A mapping of a playbook. ``keys`` are in the order in which ``migrate`` writes them.

    ``name`` is its name in the JSON Schema and for ``noetl explain``, ``description`` its name in messages. ``needs``
    are groups of keys of which one is required, in the mapping itself or in the mapping of one of the keys
    ``needs_below``. Unknown keys are errors unless the construct is ``open``.
    """

    name: str
    description: str
    about: str
    keys: tuple[Key, ...]
    needs: tuple[tuple[str, ...], ...] = ()
    open: bool = False
    needs_below: tuple[str, ...] = ()

    @cached_property
    def by_name(self) -> Mapping[str, Key]:
        """Every spelling -> its key."""
        return MappingProxyType({name: key for key in self.keys for name in key.names})

    def about_of(self, name: str) -> str:
        """Return the description of a key, for schemas of other dialects that have it too. Raises KeyError."""
        return self.by_name[name].about

    @cached_property
    def spellings(self) -> Mapping[str, tuple[str, ...]]:
        """The name of each key -> all its names."""
        return {key.name: key.names for key in self.keys}

    @cached_property
    def required_keys(self) -> tuple[Key, ...]:
        """The required keys."""
        return tuple(key for key in self.keys if key.required)

    @cached_property
    def superseded_keys(self) -> tuple[Key, ...]:
        """The keys for which a warning names a successor."""
        return tuple(key for key in self.keys if key.successor)

    @cached_property
    def position(self) -> Mapping[str, int]:
        """The name of each key -> its index in the order."""
        return MappingProxyType({key.name: index for index, key in enumerate(self.keys)})
