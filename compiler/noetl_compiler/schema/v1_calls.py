"""Calls of the v1 dialect: on a step itself, in its ``call``, or in the ``task`` of an iterator.

A call need not name its kind: one with a path calls a playbook, one with a name a task of the workbook, and one with
only a ``save`` stores a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from noetl_compiler.language.constructs.sinks import SINK_KEYS
from noetl_compiler.language.sinks import EVENT_KINDS, FLAT_KEYS, KIND_KEYS
from noetl_compiler.language.tools import PSEUDO_KINDS, V1_KIND_KEYS, V1_KINDS, V1_MARKER_KINDS, V1_SAVE_KINDS
from noetl_compiler.schema.calls import INPUT, RETURN_AND_ON_ERROR, WORKBOOK_TASK_NAME, Calls, by_kind
from noetl_compiler.schema.from_table import properties
from noetl_compiler.schema.model import Model, Models, Property, Schema, Shape
from noetl_compiler.schema.values import NAME, any_of, described_words, first_of, has, one_or_more, ref, words

__all__ = ["Form", "nested_calls"]

_OLDER_WORDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {kind: tuple(word for word, called_kind in V1_KINDS.items() if called_kind == kind) for kind in V1_KINDS.values()}
)
_SAVES = tuple(sorted(V1_SAVE_KINDS))
_NAME = Property("name", "A second name for the result, in addition to the step's name.", NAME)


class Form(msgspec.Struct, frozen=True):
    """The form of a v1 call: a mapping of its own, or a step. ``name`` is the end of the names of its models, ``keys``
    may contain the kind. ``step_models`` are the models of the step if the step itself is the call.
    """

    name: str
    keys: tuple[str, ...]
    calls: Calls
    step_models: tuple[Model, ...] = ()

    @property
    def words(self) -> Schema:
        """The schema of the kinds that can be called, with their older names."""
        older = {word: f'An older word for "{kind}".' for kind, spellings in _OLDER_WORDS.items() for word in spellings}
        return described_words(
            {**self.calls.kinds.meanings, **older, **dict.fromkeys(_SAVES, "Only stores something.")}
        )

    def models(self) -> Models:
        """Return a model for each kind, and one for calls that only store."""
        return (*(model for _, model in self._models_by_kind()), self._saving_model())

    def choice(self, otherwise: Schema) -> Schema:
        """Return a schema that selects the model of a call by its kind or, without one, by its fields."""
        models_by_word = (
            (word, model) for kind, model in self._models_by_kind() for word in (kind, *_OLDER_WORDS.get(kind, ()))
        )
        return first_of(
            (self._only_saves(), ref(f"saving_{self.name}")),
            (has(*self.keys), {"allOf": by_kind(models_by_word, *self.keys)}),
            (has("path"), ref(f"playbook_{self.name}")),
            (has("name", "task"), ref(f"workbook_{self.name}")),
            otherwise=otherwise,
        )

    def _models_by_kind(self) -> tuple[tuple[str, Model], ...]:
        kinds = (kind for kind in self.calls.kinds.names if self.step_models or kind not in PSEUDO_KINDS)
        return tuple((kind, self._model(kind)) for kind in kinds)

    def _model(self, kind: str) -> Model:
        word = words(kind, *_OLDER_WORDS.get(kind, ()))
        kind_properties = tuple(Property(key, self.calls.kinds.tool(kind).summary, word) for key in self.keys)
        name_properties = {"workbook": (WORKBOOK_TASK_NAME,), "secrets": ()}.get(kind, (_NAME,))
        input_properties = (INPUT,) if kind in PSEUDO_KINDS else ()
        outcome_properties = () if self.step_models else RETURN_AND_ON_ERROR
        return self.calls.flat_call(
            kind,
            f"{kind}_{self.name}",
            (*kind_properties, *name_properties, *input_properties, *outcome_properties),
            self.step_models,
        )

    def _saving_model(self) -> Model:
        kinds = words(*_SAVES, *self.calls.kinds.names)  # beside "type" the tool is the kind of store
        kind_properties = (Property(key, "Marks a step that only stores something.", kinds) for key in self.keys)
        flat_properties = properties(sink_key for sink_key in SINK_KEYS if FLAT_KEYS.issuperset(sink_key.names))
        save_property = Property("save", "What to store, and where.", one_or_more(ref("saved")), older=("sink",))
        about = "Only stores something; without a kind of store, what is stored is the step's result."
        outcome_properties = () if self.step_models else RETURN_AND_ON_ERROR
        return Model(
            f"saving_{self.name}",
            about,
            (*kind_properties, _NAME, save_property, *flat_properties, *outcome_properties),
            self.step_models,
        )

    def _only_saves(self) -> Schema:
        marked_save: Schema = {"allOf": [_has_kind(self.keys, V1_MARKER_KINDS), has(*_SAVES)]}
        save_without_name: Schema = {"allOf": [has(*_SAVES), {"not": has(*self.keys, "path", "name", "task")}]}
        return any_of(_has_kind(self.keys, _SAVES), marked_save, save_without_name)


def _has_kind(keys: tuple[str, ...], kinds: tuple[str, ...]) -> Schema:
    return any_of(*({"required": [key], "properties": {key: {"enum": list(kinds)}}} for key in keys))


_HAS_STORE = any_of(
    *({"required": [key], "properties": {key: {"not": {"enum": sorted(EVENT_KINDS)}}}} for key in KIND_KEYS)
)


def nested_calls(calls: Calls) -> Models:
    """Return the models of calls in a mapping of their own."""
    form = Form("call", V1_KIND_KEYS, calls)
    return (
        *form.models(),
        Model(
            "call_of_kind",
            "What is called.",
            tuple(Property(key, "The kind of what is called.", form.words) for key in form.keys),
            open=True,
            rules=form.choice(ref("workbook_call")),
        ),
        Shape("called", any_of(NAME, ref("call_of_kind"))),
        Shape("saved", {"type": "object", "if": _HAS_STORE, "then": ref("sink")}),
    )
