"""Calls of tools: fields that every call has, and one place a kind with its own beside them.

A kind's place is chosen by the word of its kind, with ``if`` and ``then``, so an editor proposes and checks the
fields of that kind alone and says what is wrong with them, not that none of thirty alternatives fits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from types import MappingProxyType

from noetl_compiler.graph import Json
from noetl_compiler.language import keys
from noetl_compiler.language.tools import PSEUDO_KINDS, ToolKind
from noetl_compiler.language.words import V1_ON_ERROR
from noetl_compiler.schema.model import Model, Property, Schema
from noetl_compiler.schema.policies import GUARD
from noetl_compiler.schema.results import OUTPUTS
from noetl_compiler.schema.routes import SET
from noetl_compiler.schema.sinks import sink_and_save
from noetl_compiler.schema.tools import ALL_KINDS, KIND_MEANINGS, kind_of, tool_fields
from noetl_compiler.schema.values import NAME, NAMES, TEXT, TIMEOUT, ref, told_words, words

__all__ = [
    "ASSERT",
    "CALL",
    "CALLED",
    "DESC",
    "INPUT",
    "KIND_WORDS",
    "RETURN_AND_ON_ERROR",
    "TOOL_FIELDS",
    "Calls",
    "by_kind",
]

KIND_WORDS: Schema = told_words(KIND_MEANINGS)
DESC = Property("desc", "What this is for, in words for people.", TEXT, older=("description",))
CALLED = Property("name", "The name of the workbook task to run.", NAME, older=("task",), required=True)

ASSERT = Property("assert", "The names that the call expects to be bound.", ref("assert"))
RETURN = Property("return", "What the call yields in place of its result.")
ON_ERROR = Property("on_error", 'Whether a failed call is as good as any other ("continue").', words(*V1_ON_ERROR))
RETURN_AND_ON_ERROR = (RETURN, ON_ERROR)
"""What the calls of v1 say of their own outcome."""

CALL = Model(
    "call",
    "What every call of a tool has beside the fields of its tool.",
    (
        DESC,
        Property(
            "auth",
            "The name of the credential to call with, or several by name.",
            older=("credential", "credentials", "connection"),
        ),
        Property(
            "timeout",
            "How long the call may take: seconds, or a text with a unit.",
            TIMEOUT,
            older=("timeout_seconds",),
        ),
        *SET,
        *sink_and_save("Where the result is stored, in the same call."),
        Property("retry", 'When to call again; v10 says it as rules of "spec.policy".', ref("retry")),
        Property("eval", 'What follows the call; write rules of "spec.policy" instead.', ref("eval"), deprecated=True),
        GUARD,
        *OUTPUTS,
        ASSERT,
    ),
    open=True,
)

INPUT = Property(
    "input",
    "Names with their values that the tool can use: in Python code they are variables.",
    NAMES,
    older=(*keys.INPUT[1:], *keys.LOOSE_INPUT),
)

_SPEC = ref("task_spec")
_SPEC_WORDS = ("policy", "idempotent", "idempotency_key", "result")


def _bound(kind: str) -> tuple[Property, ...]:
    """What is bound for a call: a key that is a field of the tool is no older name of input."""
    if kind in PSEUDO_KINDS:
        return ()
    taken = kind_of(kind).fields or ()
    return (replace(INPUT, older=tuple(name for name in INPUT.older if name not in taken)),)


TOOL_FIELDS = MappingProxyType(
    {
        kind: Model(f"{kind}_fields", KIND_MEANINGS[kind], (*tool_fields(kind), *_bound(kind)), open=True)
        for kind in ALL_KINDS
    }
)
"""What a call of each kind has of its own."""


@dataclass(frozen=True, slots=True)
class Calls:
    """How a dialect writes calls. Where it ``binds`` fields, what a tool needs may be among the names bound for it."""

    binds: bool = False

    def flat(self, kind: str, name: str, head: tuple[Property, ...], borrowed: tuple[Model, ...] = ()) -> Model:
        """A call whose fields stand beside others. ``head`` are the properties that tell its kind and name."""
        settings = () if any(one.name == "spec" for one in head) else (_settings(_SPEC),)
        return self._place(kind, name, (*head, *settings), borrowed)

    def nested(self, kind: str, name: str, head: tuple[Property, ...]) -> Model:
        """A call in a mapping of its own, whose fields may also stand in ``spec``."""
        place = self._place(kind, name, head, ())
        names = words(*dict.fromkeys((*place.names, *_SPEC_WORDS)))
        spec = _SPEC if place.open else {"allOf": [_SPEC], "propertyNames": names}
        return replace(place, properties=(*head, _settings(spec)), inside=("spec", *place.inside))

    def _place(self, kind: str, name: str, properties: tuple[Property, ...], borrowed: tuple[Model, ...]) -> Model:
        tool = kind_of(kind)
        return Model(
            name,
            KIND_MEANINGS[kind],
            properties,
            borrowed=(*borrowed, CALL, TOOL_FIELDS[kind]),
            needs=_needs(tool),
            inside=INPUT.names if self.binds and tool.bound else (),
            open=tool.fields is None,
        )


def _settings(spec: Schema) -> Property:
    return Property("spec", "What follows the call, and how long it may take: policy, timeout.", spec)


def _needs(tool: ToolKind) -> tuple[tuple[str, ...], ...]:
    return tuple((*group, *(old for old, new in tool.renamed.items() if new in group)) for group in tool.needs)


def by_kind(places: Iterable[tuple[str, Model]], *keys: str) -> list[Json]:
    """For each kind the place that is meant when one of the keys says it."""
    return [{"if": _says(kind, keys), "then": ref(place.name)} for kind, place in places]


def _says(kind: str, keys: tuple[str, ...]) -> Schema:
    return {"anyOf": [{"required": [key], "properties": {key: {"const": kind}}} for key in keys]}
