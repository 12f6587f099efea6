"""Calls of tools: fields that every call has, and one place a kind with its own beside them.

A kind's place is chosen by the word of its kind, with ``if`` and ``then``, so an editor proposes and checks the
fields of that kind alone and says what is wrong with them, not that none of thirty alternatives fits.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from noetl_compiler.graph import Json
from noetl_compiler.language.constructs import calls as tables
from noetl_compiler.language.constructs.steps import DESC as DESC_KEY
from noetl_compiler.language.tool_description import ToolDescription
from noetl_compiler.language.tools import PSEUDO_KINDS
from noetl_compiler.language.words import V1_ON_ERROR
from noetl_compiler.schema.from_table import model_of, property_of
from noetl_compiler.schema.model import Model, Property, Schema
from noetl_compiler.schema.tools import KNOWN_KINDS, ToolKinds
from noetl_compiler.schema.values import NAME, ref, words

__all__ = [
    "ASSERT",
    "CALL",
    "CALLED",
    "DESC",
    "INPUT",
    "RETURN_AND_ON_ERROR",
    "Calls",
    "by_kind",
]

DESC = property_of(DESC_KEY)
CALLED = Property("name", "The name of the workbook task to run.", NAME, older=("task",), required=True)

ASSERT = property_of(tables.ASSERT_KEY)
RETURN = Property("return", "The result of the call, instead of its tool's result.")
ON_ERROR = Property("on_error", 'Whether a failed call counts as a success ("continue").', words(*V1_ON_ERROR))
RETURN_AND_ON_ERROR = (RETURN, ON_ERROR)
"""What the calls of v1 say of their own outcome."""

CALL = model_of(tables.CALL)
INPUT = property_of(tables.INPUT)

_SPEC = ref("task_spec")
_SPEC_WORDS = tuple(key.name for key in tables.TASK_SPEC.keys if key.name not in tables.CALL.by_name)


class Calls(msgspec.Struct, frozen=True):
    """The form of calls in a dialect, and their ``kinds``.

    Where it ``binds`` fields, what a tool needs may be among the names bound for it.
    """

    binds: bool = False
    kinds: ToolKinds = KNOWN_KINDS

    def fields(self, kind: str) -> Model:
        """Return what a call of that kind has of its own."""
        about = self.kinds.tool(kind).summary
        return Model(f"{kind}_fields", about, (*self.kinds.fields(kind), *self._bound(kind)), open=True)

    def _bound(self, kind: str) -> tuple[Property, ...]:
        """The property ``input`` of a call. A field of the tool is not an older name of it."""
        if kind in PSEUDO_KINDS:
            return ()
        taken = self.kinds.tool(kind).field_names
        return (replace(INPUT, older=tuple(name for name in INPUT.older if name not in taken)),)

    def flat(self, kind: str, name: str, head: tuple[Property, ...], borrowed: tuple[Model, ...] = ()) -> Model:
        """A call whose fields are beside others. ``head`` are the properties for its kind and name."""
        settings = () if any(one.name == "spec" for one in head) else (_settings(_SPEC),)
        return self._place(kind, name, (*head, *settings), borrowed)

    def nested(self, kind: str, name: str, head: tuple[Property, ...]) -> Model:
        """A call in its own mapping, whose fields may also be in ``spec``."""
        place = self._place(kind, name, head, ())
        names = words(*dict.fromkeys((*place.names, *_SPEC_WORDS)))
        spec = _SPEC if place.open else {"allOf": [_SPEC], "propertyNames": names}
        return replace(place, properties=(*head, _settings(spec)), inside=("spec", *place.inside))

    def _place(self, kind: str, name: str, properties: tuple[Property, ...], borrowed: tuple[Model, ...]) -> Model:
        tool = self.kinds.tool(kind)
        return Model(
            name,
            tool.summary,
            properties,
            borrowed=(*borrowed, CALL, self.fields(kind)),
            needs=_needs(tool),
            inside=INPUT.names if self.binds and tool.bound else (),
            open=tool.fields is None,
        )


def _settings(spec: Schema) -> Property:
    return replace(property_of(tables.SETTINGS), value=spec)


def _needs(tool: ToolDescription) -> tuple[tuple[str, ...], ...]:
    return tuple((*group, *(old for old, new in tool.renamed.items() if new in group)) for group in tool.needs)


def by_kind(places: Iterable[tuple[str, Model]], *keys: str) -> list[Json]:
    """Return, for each kind, a schema that applies its model if one of the keys has this kind."""
    return [{"if": _says(kind, keys), "then": ref(place.name)} for kind, place in places]


def _says(kind: str, keys: tuple[str, ...]) -> Schema:
    return {"anyOf": [{"required": [key], "properties": {key: {"const": kind}}} for key in keys]}
