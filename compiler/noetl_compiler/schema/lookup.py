"""What the tables of the schema say of one key, found by its path: ``loop.spec.max_in_flight``, ``rule.then.attempts``.

A path begins at a construct (``playbook``, ``step``, ``task``, ``rule``, any other mapping of the schema), at a tool
kind (``http``), or at a key of a step, a task or a playbook. Lists have no brackets: ``next.arcs.when``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple, cast

from msgspec.structs import replace

from noetl_compiler.graph import Json
from noetl_compiler.language.tool_description import ToolDescription
from noetl_compiler.schema import models_of
from noetl_compiler.schema.key_hints import KeyPaths, paths_below
from noetl_compiler.schema.model import Model, Property, Schema, Shape
from noetl_compiler.schema.tools import KNOWN_KINDS, ToolKinds

__all__ = ["CONSTRUCTS", "KeyEntry", "UnknownPathError", "lookup", "lookup_kind"]

CONSTRUCTS = ("playbook", "step", "task", "rule")
"""Where a path may begin; ``rule`` is one of a task's policy."""

_TYPES: Mapping[str, str] = {
    "string": "a string",
    "number": "a number",
    "integer": "a number",
    "boolean": "true or false",
    "object": "a mapping",
    "array": "a list",
}


class UnknownPathError(LookupError):
    """The key is unknown; the message names the nearest."""


class KeyEntry(NamedTuple):
    """The description of a key, a construct or a tool kind.

    ``value`` says in words what it may be, "" for a construct. ``choices`` are allowed words with their meanings,
    ``older`` other names of the key. ``keys`` are those of the mapping that it is or holds, ``shared`` those that every
    call has, of a tool kind; both as names with their meanings. ``default`` is that of a tool's field, None
    where there is none, ``tool`` that of a kind.
    """

    path: str
    about: str
    value: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    examples: tuple[Json, ...] = ()
    older: tuple[str, ...] = ()
    is_required: bool = False
    keys: tuple[tuple[str, str], ...] = ()
    shared: tuple[tuple[str, str], ...] = ()
    default: Json = None
    tool: ToolDescription | None = None


def lookup(path: str, kinds: ToolKinds = KNOWN_KINDS) -> KeyEntry:
    """Return the entry of a dotted path in the current dialect. Raises UnknownPathError."""
    first, *rest = path.strip(".").split(".")
    tables = _tables(kinds)
    models, found = tables.begin(first)
    walked = first
    for name in rest:
        found = _key(models, name)
        if found is None:
            raise UnknownPathError(tables.unknown(name, f'in "{walked}"', _names(models)))
        models = tables.models_in(found.value)
        walked = f"{walked}.{name}"
    if found is None:
        is_kind = first in kinds.names and first not in CONSTRUCTS
        return (
            tables.entry_of_kind(first) if is_kind else KeyEntry(first, models[0].about, keys=tuple(_described(models)))
        )
    return KeyEntry(
        walked,
        found.about,
        tables.in_words(found.value),
        tuple(_choices(found.value)),
        tuple(_examples(found.value)),
        found.older,
        found.required,
        tuple(_described(models)),
        default=found.value.get("default"),
    )


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
        self._places: Mapping[str, Model | Shape] = {one.name: one for one in models_of("v10", kinds)}
        self._models = {name: one for name, one in self._places.items() if isinstance(one, Model)}

    def begin(self, name: str) -> tuple[Sequence[Model], Property | None]:
        """Return the models at the start of a path: of a construct or tool kind, or of a key, with that key."""
        if name in CONSTRUCTS:
            return self._called(name), None
        if name in self._kinds.names:
            return [self._models[f"{name}_task"]], None
        within = [one for construct in ("step", "task", "playbook") for one in self._called(construct)]
        found = next((one for one in _properties(within) if name in one.names and not one.deprecated), None)
        if found is not None:
            return self.models_in(found.value), found
        if name in self._models:
            return [self._models[name]], None
        known = [*CONSTRUCTS, *self._kinds.names, *self._models, *self._paths.names]
        raise UnknownPathError(self.unknown(name, "of a playbook", known))

    def entry_of_kind(self, kind: str) -> KeyEntry:
        """Return the entry of a tool kind, whose keys are separate from those of every call."""
        model, tool = self._models[f"{kind}_task"], self._kinds.tool(kind)
        *shared, own = model.borrowed
        every_call = replace(model, borrowed=tuple(shared))
        own_keys, shared_keys = tuple(_described([own])), tuple(_described([every_call]))
        return KeyEntry(kind, tool.summary, keys=own_keys, shared=shared_keys, tool=tool)

    def unknown(self, name: str, where: str, known: Sequence[str]) -> str:
        """Return the message about an unknown key, with the place where it belongs or the nearest key."""
        hint = self._paths.hint(name, known)
        return f'unknown key "{name}" {where}{f": {hint}" if hint else ""}'

    @cached_property
    def _paths(self) -> KeyPaths:
        below = paths_below({name: self._called(name) for name in CONSTRUCTS}, self.models_in)
        return KeyPaths(self._kinds.names, self._paths_of_kinds(True), below, self._paths_of_kinds(False))

    def _paths_of_kinds(self, runs: bool) -> list[str]:
        kinds = [kind for kind in self._kinds.names if self._kinds.tool(kind).has_executor is runs]
        return [f"{kind}.{name}" for kind in kinds for name in _names([self._models[f"{kind}_fields"]])]

    def models_in(self, value: Schema) -> list[Model]:
        """Return the models of a value, or of the items of a list."""
        found: dict[str, Model] = {}
        waiting, seen = [value], set[str]()
        while waiting:
            schema = waiting.pop(0)
            name = str(schema.get("$ref", "")).rpartition("/")[2]
            if name and name not in seen:
                seen.add(name)
                one = self._places[name]
                if isinstance(one, Shape):
                    waiting.insert(0, one.value)
                else:
                    found |= {model.name: model for model in self._called(name)}
            waiting += _parts(schema)
        return list(found.values())

    def in_words(self, value: Schema) -> str:
        """Return a description of the values that a schema allows."""
        return " or ".join(dict.fromkeys(_words(value, self._places))) or "any value"

    def _called(self, name: str) -> list[Model]:
        """Return the model of that name; with ``task`` what every task has beside its kind."""
        if name != "task":
            return [self._models[name]]
        noop = self._models["noop_task"]
        return [self._models["task"], replace(noop, borrowed=noop.borrowed[:-1])]


def _properties(models: Iterable[Model]) -> Iterator[Property]:
    for model in models:
        yield from model.properties
        yield from _properties(model.borrowed)


def _key(models: Iterable[Model], name: str) -> Property | None:
    return next((one for one in _properties(models) if name in one.names), None)


def _names(models: Iterable[Model]) -> list[str]:
    return [one.name for one in _properties(models) if not one.deprecated]


def _described(models: Iterable[Model]) -> Iterator[tuple[str, str]]:
    """Name and meaning of each key, the first where two models have one of the same name."""
    seen = set[str]()
    for one in _properties(models):
        if one.name not in seen and not one.deprecated:
            seen.add(one.name)
            yield one.name, one.about


def _parts(schema: Schema) -> list[Schema]:
    """Return the subschemas of a schema that apply to its value or its items."""
    alone = [schema.get(key) for key in ("then", "else", "items")]
    several = [one for key in ("anyOf", "allOf") for one in cast("list[Json]", schema.get(key, []))]
    return [cast("Schema", one) for one in (*several, *alone) if isinstance(one, dict)]


# ---- words -----------------------------------------------------------------------------------------------------------


def _words(value: Schema, places: Mapping[str, Model | Shape]) -> Iterator[str]:
    if "enum" in value:
        yield f"one of {', '.join(map(str, cast('list[Json]', value['enum'])))}"
    elif "const" in value:
        yield str(value["const"])
    elif "patternErrorMessage" in value:
        yield str(value["patternErrorMessage"]).removeprefix("expected ")
    elif "$ref" in value:
        one = places[str(value["$ref"]).rpartition("/")[2]]
        yield from _words(one.value, places) if isinstance(one, Shape) else ("a mapping",)
    elif isinstance(value.get("items"), dict):
        yield "a list"
    elif "minimum" in value and "maximum" in value:
        yield f"{_TYPES[str(value['type'])]} from {value['minimum']} to {value['maximum']}"
    elif "type" in value:
        types = value["type"]
        yield from (_TYPES[str(one)] for one in (cast("list[Json]", types) if isinstance(types, list) else [types]))
    else:
        for part in _parts(value):
            yield from _words(part, places)


def _choices(value: Schema) -> Iterator[tuple[str, str]]:
    for word, meaning in zip(_list(value, "enum"), _list(value, "enumDescriptions"), strict=False):
        yield str(word), str(meaning)


def _examples(value: Schema) -> Iterator[Json]:
    yield from _list(value, "examples")
    for part in _parts(value):
        yield from _examples(part)


def _list(value: Schema, key: str) -> list[Json]:
    return cast("list[Json]", value.get(key, []))
