"""What the tables of keys are written in: constructs of a playbook, each a mapping with its keys.

The tables are in ``language/constructs``. The front end takes from them which keys a mapping may have, under which
names, and the nearest to a misspelt one; the JSON Schema and ``noetl explain`` what they mean; ``migrate`` the order
in which it writes them, which defaults it leaves out, and what it notes of them.
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
    """An extension, which other engines of v10 do not know: the path of the key, and what v10 cannot express without
    it.
    """

    path: str
    gap: str


class Key(msgspec.Struct, frozen=True):
    """One key. ``about`` describes it for people, ``older`` are its synonyms.

    A key that is not ``required`` may be null, which means that it is absent. Editors do not propose ``deprecated``
    keys; ``successor`` is what a warning advises to write instead. ``no_effect`` is why the key is ignored, for a
    warning. ``snippet`` is what an editor writes as the value, with ``$1`` where the author continues.

    The rest is for ``migrate``. A value that is the ``default`` is not written, but is kept where an author of v10 has
    it. So is any value of an ``inert`` key that is not written, for it has no effect there. A ``verbatim`` key is kept
    as it is, because the syntax tree does not say it. Each use of an ``extension`` is noted.
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
    inert: bool = False
    verbatim: bool = False
    extension: Extension | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The name and its older spellings."""
        return (self.name, *self.older)


def without_effect(name: str, why: str, value: ValueType = Plain.ANYTHING) -> Key:
    """Return a key that playbooks have and the compiler ignores, with a warning that says why."""
    return Key(name, f"Has no effect: {why}.", value, deprecated=True, no_effect=why)


@dataclass(frozen=True)
class Construct:
    """A mapping of a playbook. ``keys`` are in the order in which ``migrate`` writes them.

    ``name`` is its name in the JSON Schema and for ``noetl explain``, ``called`` what messages call it. ``needs`` are
    groups of keys of which one must be there, in the mapping itself or in one of the mappings ``inside``. Any other key
    is refused unless the construct is ``open``.
    """

    name: str
    called: str
    about: str
    keys: tuple[Key, ...]
    needs: tuple[tuple[str, ...], ...] = ()
    open: bool = False
    inside: tuple[str, ...] = ()

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
    def required(self) -> tuple[Key, ...]:
        """The keys that must be there."""
        return tuple(key for key in self.keys if key.required)

    @cached_property
    def superseded(self) -> tuple[Key, ...]:
        """The keys that a warning names a successor of."""
        return tuple(key for key in self.keys if key.successor)

    @cached_property
    def position(self) -> Mapping[str, int]:
        """The name of each key -> its place in the order."""
        return MappingProxyType({key.name: index for index, key in enumerate(self.keys)})
