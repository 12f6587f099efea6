"""Looks up the description of a key in the schema by its path: ``loop.spec.max_in_flight``, ``rule.then.attempts``.

A path begins at a construct (``playbook``, ``step``, ``task``, ``rule``, any other mapping of the schema), at a tool
kind (``http``), or at a key of a step, a task or a playbook. Lists have no brackets: ``next.arcs.when``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import compress
from typing import NamedTuple, cast

from msgspec.structs import replace

from noetl_compiler.graph import Json
from noetl_compiler.language.tool_description import ToolDescription
from noetl_compiler.schema import models_of
from noetl_compiler.schema.key_hints import KeyPaths, paths_below
from noetl_compiler.schema.model import Model, Property, Schema, Shape
from noetl_compiler.schema.tools import KNOWN_KINDS, ToolKinds

__all__ = ["CONSTRUCTS", "KeyEntry", "UnknownPathError", "lookup", "lookup_kind", "lookup_suffix"]

CONSTRUCTS = ("playbook", "step", "task", "rule")
"""The constructs at which a path may begin; ``rule`` is a rule of a task's policy."""

_TYPES: Mapping[str, str] = {
    "string": "a string",
    "number": "a number",
    "integer": "a number",
    "boolean": "true or false",
    "object": "a mapping",
    "array": "a list",
}


class UnknownPathError(LookupError):
    """The key is unknown. The message names the most similar key, if there is one."""


class KeyEntry(NamedTuple):
    """The description of a key, a construct or a tool kind.

    ``value`` describes its values, "" for a construct. ``choices`` are the allowed words with their meanings. ``keys``
    are the keys of its mapping with their meanings; for a tool kind, ``shared_keys`` are those that every call has.
    ``default`` is that of a tool's field, if any. ``tool`` is set for a tool kind.
    """

    path: str
    about: str
    value: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    examples: tuple[Json, ...] = ()
    older_names: tuple[str, ...] = ()
    is_required: bool = False
    keys: tuple[tuple[str, str], ...] = ()
    shared_keys: tuple[tuple[str, str], ...] = ()
    default: Json = None
    tool: ToolDescription | None = None


def lookup(path: str, kinds: ToolKinds = KNOWN_KINDS) -> KeyEntry:
    """Return the entry of a dotted path in the current dialect. Raises UnknownPathError."""
    first, *remaining_names = path.strip(".").split(".")
    tables = _tables(kinds)
    models, key = tables.models_at_start(first)
    path_so_far = first
    for name in remaining_names:
        keys = [key for key in _properties(models) if name in key.names]
        if not keys:
            raise UnknownPathError(tables.unknown_message(name, _names(models), path_so_far))
        key = keys[0]
        models = tables.models_in_any(keys)
        path_so_far = f"{path_so_far}.{name}"
    if key is None:
        is_kind = first in kinds.names and first not in CONSTRUCTS
        return (
            tables.entry_of_kind(first)
            if is_kind
            else KeyEntry(first, models[0].about, keys=tuple(_keys_with_meanings(models)))
        )
    return KeyEntry(
        path_so_far,
        key.about,
        tables.describe_values(key.value),
        tuple(_choices(key.value)),
        tuple(_examples(key.value)),
        key.older,
        key.required,
        tuple(_keys_with_meanings(models)),
        default=key.value.get("default"),
    )


def lookup_suffix(suffix: str, kinds: ToolKinds = KNOWN_KINDS) -> tuple[KeyEntry, ...]:
    """Return the entries of all keys whose path ends with these names, the shortest path first."""
    return tuple(lookup(path, kinds) for path in _tables(kinds).paths_to(suffix))


def lookup_kind(kind: str, kinds: ToolKinds = KNOWN_KINDS) -> KeyEntry:
    """Return the entry of a tool kind, also of one that has the name of a construct (``playbook``)."""
    return _tables(kinds).entry_of_kind(kind)


# ---- the tables ------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=2)
def _tables(kinds: ToolKinds) -> _Tables:
    return _Tables(kinds)


class _Tables:
    """The models of the current dialect, with these kinds of tools."""

    def __init__(self, kinds: ToolKinds) -> None:
        self._kinds = kinds
        self._definitions: Mapping[str, Model | Shape] = {
            definition.name: definition for definition in models_of("v10", kinds)
        }
        self._models = {
            name: definition for name, definition in self._definitions.items() if isinstance(definition, Model)
        }

    def models_at_start(self, name: str) -> tuple[Sequence[Model], Property | None]:
        """Return the models at the start of a path: of a construct or tool kind, or of a key, with that key."""
        if name in CONSTRUCTS:
            return self._models_named(name), None
        if name in self._kinds.names:
            return [self._models[f"{name}_task"]], None
        models = [model for construct in ("step", "task", "playbook") for model in self._models_named(construct)]
        key = next((key for key in _properties(models) if name in key.names and not key.deprecated), None)
        if key is not None:
            return self.models_in(key.value), key
        if name in self._models:
            return [self._models[name]], None
        known_names = [*CONSTRUCTS, *self._kinds.names, *self._models, *self._paths.names]
        raise UnknownPathError(self.unknown_message(name, known_names))

    def entry_of_kind(self, kind: str) -> KeyEntry:
        """Return the entry of a tool kind, whose keys are separate from those of every call."""
        model, tool = self._models[f"{kind}_task"], self._kinds.tool(kind)
        *shared_models, kind_model = model.included
        shared_model = replace(model, included=tuple(shared_models))
        kind_keys, shared_keys = tuple(_keys_with_meanings([kind_model])), tuple(_keys_with_meanings([shared_model]))
        return KeyEntry(kind, tool.summary, keys=kind_keys, shared_keys=shared_keys, tool=tool)

    def unknown_message(self, name: str, known_names: Sequence[str], parent: str = "") -> str:
        """Return the message for an unknown key, with the path where it belongs or the nearest key."""
        hint, location = self._paths.hint(name, known_names, parent), f'in "{parent}"' if parent else "of a playbook"
        return f'unknown key "{name}" {location}{f": {hint}" if hint else ""}'

    def paths_to(self, suffix: str) -> list[str]:
        """Return the paths that end with the names of the suffix, the shortest first: of all constructs, and of the
        fields of tool kinds that are supported, except those that all of these have.
        """
        shared_names = _names(self._models_named("task"))
        fields = [path for path in self._paths.supported if path.rpartition(".")[2] not in shared_names]
        paths = dict.fromkeys((*self._paths.constructs, *fields))
        return sorted((path for path in paths if path.endswith(f".{suffix}")), key=lambda path: path.count("."))

    @cached_property
    def _paths(self) -> KeyPaths:
        below = paths_below({name: self._models_named(name) for name in CONSTRUCTS}, self.models_in)
        return KeyPaths(self._kinds.names, self._paths_of_kinds(True), below, self._paths_of_kinds(False))

    def _paths_of_kinds(self, has_executor: bool) -> list[str]:
        """Return the paths to the fields of tool kinds, except those with the name of a construct."""
        kinds = [
            kind
            for kind in self._kinds.names
            if self._kinds.tool(kind).has_executor is has_executor and kind not in CONSTRUCTS
        ]
        return [f"{kind}.{name}" for kind in kinds for name in _names([self._models[f"{kind}_fields"]])]

    def models_in_any(self, keys: Iterable[Property]) -> list[Model]:
        """Return the models of the values of keys that have the same name in different mappings."""
        return list({model.name: model for key in keys for model in self.models_in(key.value)}.values())

    def models_in(self, value: Schema) -> list[Model]:
        """Return the models of a value, or of the items of a list."""
        models: dict[str, Model] = {}
        queue, visited_names = [value], set[str]()
        while queue:
            schema = queue.pop(0)
            name = str(schema.get("$ref", "")).rpartition("/")[2]
            if name and name not in visited_names:
                visited_names.add(name)
                definition = self._definitions[name]
                if isinstance(definition, Shape):
                    queue.insert(0, definition.value)
                else:
                    models |= {model.name: model for model in self._models_named(name)}
            queue += _parts(schema)
        return list(models.values())

    def describe_values(self, value: Schema) -> str:
        """Return a description of the values that a schema allows."""
        return " or ".join(dict.fromkeys(_value_words(value, self._definitions))) or "any value"

    def _models_named(self, name: str) -> list[Model]:
        """Return the model of that name; for ``task`` also the keys that tasks of every kind have."""
        if name != "task":
            return [self._models[name]]
        *shared_models, noop_fields = self._models["noop_task"].included
        shared_fields = replace(noop_fields, properties=tuple(self._fields_of_all_kinds(noop_fields.properties)))
        noop = replace(self._models["noop_task"], included=(*shared_models, shared_fields))
        return [self._models["task"], noop]

    def _fields_of_all_kinds(self, fields: Iterable[Property]) -> Iterator[Property]:
        """Yield those of the fields that all supported kinds have, with the older names that all of them accept."""
        kinds = [kind for kind in self._kinds.names if self._kinds.tool(kind).has_executor]
        for field in fields:
            same_fields = [
                other
                for kind in kinds
                for other in self._models[f"{kind}_fields"].properties
                if other.name == field.name
            ]
            if len(same_fields) == len(kinds):
                is_older = [all(name in other.names for other in same_fields) for name in field.older]
                yield replace(field, older=tuple(compress(field.older, is_older)))


def _properties(models: Iterable[Model]) -> Iterator[Property]:
    for model in models:
        yield from model.properties
        yield from _properties(model.included)


def _names(models: Iterable[Model]) -> list[str]:
    return [key.name for key in _properties(models) if not key.deprecated]


def _keys_with_meanings(models: Iterable[Model]) -> Iterator[tuple[str, str]]:
    """Yield the name and meaning of each key; if several models have a key, that of the first."""
    visited_names = set[str]()
    for key in _properties(models):
        if key.name not in visited_names and not key.deprecated:
            visited_names.add(key.name)
            yield key.name, key.about


def _parts(schema: Schema) -> list[Schema]:
    """Return the subschemas of a schema that apply to its value or its items."""
    single_parts = [schema.get(key) for key in ("then", "else", "items")]
    listed_parts = [part for key in ("anyOf", "allOf") for part in cast("list[Json]", schema.get(key, []))]
    return [cast("Schema", part) for part in (*listed_parts, *single_parts) if isinstance(part, dict)]


# ---- words -----------------------------------------------------------------------------------------------------------


def _value_words(value: Schema, definitions: Mapping[str, Model | Shape]) -> Iterator[str]:
    if "enum" in value:
        yield f"one of {', '.join(map(str, cast('list[Json]', value['enum'])))}"
    elif "const" in value:
        yield str(value["const"])
    elif "patternErrorMessage" in value:
        yield str(value["patternErrorMessage"]).removeprefix("expected ")
    elif "$ref" in value:
        definition = definitions[str(value["$ref"]).rpartition("/")[2]]
        yield from _value_words(definition.value, definitions) if isinstance(definition, Shape) else ("a mapping",)
    elif isinstance(value.get("items"), dict):
        yield "a list"
    elif "minimum" in value and "maximum" in value:
        yield f"{_TYPES[str(value['type'])]} from {value['minimum']} to {value['maximum']}"
    elif "type" in value:
        types = value["type"]
        yield from (_TYPES[str(type_)] for type_ in (cast("list[Json]", types) if isinstance(types, list) else [types]))
    else:
        for part in _parts(value):
            yield from _value_words(part, definitions)


def _choices(value: Schema) -> Iterator[tuple[str, str]]:
    for word, meaning in zip(_list_at(value, "enum"), _list_at(value, "enumDescriptions"), strict=False):
        yield str(word), str(meaning)


def _examples(value: Schema) -> Iterator[Json]:
    yield from _list_at(value, "examples")
    for part in _parts(value):
        yield from _examples(part)


def _list_at(value: Schema, key: str) -> list[Json]:
    return cast("list[Json]", value.get(key, []))
