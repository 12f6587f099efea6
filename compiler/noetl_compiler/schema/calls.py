"""Calls of tools: a model for each kind, with the fields of the kind and those that every call has.

The model is selected by the kind, with ``if`` and ``then``, so an editor proposes and checks only the fields of that
kind, and reports what is wrong with them instead of "none of thirty alternatives matches".
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
    "DESC",
    "INPUT",
    "RETURN_AND_ON_ERROR",
    "WORKBOOK_TASK_NAME",
    "Calls",
    "by_kind",
]

DESC = property_of(DESC_KEY)
WORKBOOK_TASK_NAME = Property("name", "The name of the workbook task to run.", NAME, older=("task",), required=True)

ASSERT = property_of(tables.ASSERT_KEY)
RETURN = Property("return", "The result of the call, instead of its tool's result.")
ON_ERROR = Property("on_error", 'Whether a failed call counts as a success ("continue").', words(*V1_ON_ERROR))
RETURN_AND_ON_ERROR = (RETURN, ON_ERROR)
"""The keys of v1 calls that change the outcome of the call."""

CALL = model_of(tables.CALL)
INPUT = property_of(tables.INPUT)

_SPEC = ref("task_spec")
_SPEC_WORDS = tuple(key.name for key in tables.TASK_SPEC.keys if key.name not in tables.CALL.by_name)


class Calls(msgspec.Struct, frozen=True):
    """The form of calls in a dialect, and their ``kinds``.

    ``may_bind_fields``: required fields of a tool may be among the names that are bound for the call.
    """

    may_bind_fields: bool = False
    kinds: ToolKinds = KNOWN_KINDS

    def fields(self, kind: str) -> Model:
        """Return the model with the fields of a kind."""
        about = self.kinds.tool(kind).summary
        return Model(f"{kind}_fields", about, (*self.kinds.fields(kind), *self._input_property(kind)), open=True)

    def _input_property(self, kind: str) -> tuple[Property, ...]:
        """Return the property ``input`` of a call. Its older names do not include fields of the tool."""
        if kind in PSEUDO_KINDS:
            return ()
        fields = self.kinds.tool(kind).field_names
        return (replace(INPUT, older=tuple(name for name in INPUT.older if name not in fields)),)

    def flat_call(self, kind: str, name: str, head: tuple[Property, ...], included: tuple[Model, ...] = ()) -> Model:
        """Return a call whose fields are beside the keys of ``included``. ``head`` are the properties kind and name."""
        settings = () if any(head_property.name == "spec" for head_property in head) else (_settings_property(_SPEC),)
        return self._model(kind, name, (*head, *settings), included)

    def nested_call(self, kind: str, name: str, head: tuple[Property, ...]) -> Model:
        """Return a call in its own mapping, whose fields may also be in ``spec``."""
        model = self._model(kind, name, head, ())
        names = words(*dict.fromkeys((*model.names, *_SPEC_WORDS)))
        spec = _SPEC if model.open else {"allOf": [_SPEC], "propertyNames": names}
        return replace(model, properties=(*head, _settings_property(spec)), needs_below=("spec", *model.needs_below))

    def _model(self, kind: str, name: str, properties: tuple[Property, ...], included: tuple[Model, ...]) -> Model:
        tool = self.kinds.tool(kind)
        return Model(
            name,
            tool.summary,
            properties,
            included=(*included, CALL, self.fields(kind)),
            needs=_required_groups(tool),
            needs_below=INPUT.names if self.may_bind_fields and tool.bound_fields else (),
            open=tool.fields is None,
        )


def _settings_property(spec: Schema) -> Property:
    return replace(property_of(tables.SETTINGS), value=spec)


def _required_groups(tool: ToolDescription) -> tuple[tuple[str, ...], ...]:
    return tuple((*group, *(old for old, new in tool.renamed_fields.items() if new in group)) for group in tool.needs)


def by_kind(models: Iterable[tuple[str, Model]], *keys: str) -> list[Json]:
    """Return, for each kind, a schema that applies its model if one of the keys has this kind."""
    return [{"if": _has_kind(kind, keys), "then": ref(model.name)} for kind, model in models]


def _has_kind(kind: str, keys: tuple[str, ...]) -> Schema:
    return {"anyOf": [{"required": [key], "properties": {key: {"const": kind}}} for key in keys]}
