"""What the tables of the schema say of one key, found by its path: ``loop.spec.max_in_flight``, ``rule.then.attempts``.

A path begins at a construct (``playbook``, ``step``, ``task``, ``rule``, any other mapping of the schema), at a tool
kind (``http``), or at a key of a step, a task or a playbook. Lists have no brackets: ``next.arcs.when``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple, cast

from noetl_compiler.diagnostics import nearest_or_all
from noetl_compiler.graph import Json
from noetl_compiler.schema import models_of
from noetl_compiler.schema.model import Model, Property, Schema, Shape
from noetl_compiler.schema.tools import ALL_KINDS, KIND_MEANINGS

__all__ = ["CONSTRUCTS", "KeyEntry", "UnknownPathError", "lookup"]

CONSTRUCTS = ("playbook", "step", "task", "rule")
"""Where a path may begin; ``rule`` is one of a task's policy."""

_TYPES: Mapping[str, str] = {
    "string": "text",
    "number": "a number",
    "integer": "a number",
    "boolean": "true or false",
    "object": "a mapping",
    "array": "a list",
}


class UnknownPathError(LookupError):
    """There is no such key; the message names the nearest."""


class KeyEntry(NamedTuple):
    """What is known of a key, a construct or a tool kind.

    ``value`` says in words what it may be, "" for a construct. ``choices`` are allowed words with their meanings,
    ``older`` other names of the key. ``keys`` are those of the mapping that it is or holds, ``shared`` those that every
    call has, of a tool kind; both as names with their meanings.
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


def lookup(path: str) -> KeyEntry:
    """The entry of a dotted path in the current dialect. Raises UnknownPathError."""
    first, *rest = path.strip(".").split(".")
    models, found = _begin(first)
    walked = first
    for name in rest:
        found = _key(models, name)
        if found is None:
            raise UnknownPathError(_unknown(name, f'in "{walked}"', _names(models)))
        models = _models_in(found.value)
        walked = f"{walked}.{name}"
    if found is None:
        return _entry_of_construct(first, models)
    return KeyEntry(
        walked,
        found.about,
        _value_in_words(found.value),
        tuple(_choices(found.value)),
        tuple(_examples(found.value)),
        found.older,
        found.required,
        tuple(_described(models)),
    )


def _begin(name: str) -> tuple[Sequence[Model], Property | None]:
    """Where a path begins: the models of a construct or a kind, or those behind a key, with that key."""
    models = _models()
    if name in CONSTRUCTS:
        return _models_called(name), None
    if name in ALL_KINDS:
        return [models[f"{name}_task"]], None
    within = [one for construct in ("step", "task", "playbook") for one in _models_called(construct)]
    found = next((one for one in _properties(within) if name in one.names and not one.deprecated), None)
    if found is not None:
        return _models_in(found.value), found
    if name in models:
        return [models[name]], None
    raise UnknownPathError(_unknown(name, "of a playbook", (*CONSTRUCTS, *ALL_KINDS, *models, *_names(within))))


def _entry_of_construct(name: str, models: Sequence[Model]) -> KeyEntry:
    if name in CONSTRUCTS or name not in ALL_KINDS:
        return KeyEntry(name, models[0].about, keys=tuple(_described(models)))
    *shared, own = models[0].borrowed
    every_call = replace(models[0], borrowed=tuple(shared))
    return KeyEntry(name, KIND_MEANINGS[name], keys=tuple(_described([own])), shared=tuple(_described([every_call])))


def _unknown(name: str, where: str, known: Iterable[str]) -> str:
    kinds = [kind for kind in ALL_KINDS if name in _names([_models()[f"{kind}_fields"]])]
    hint = f"try {kinds[0]}.{name}" if kinds else nearest_or_all(name, known, "keys are")
    return f'unknown key "{name}" {where}{f": {hint}" if hint else ""}'


# ---- the tables ------------------------------------------------------------------------------------------------------


@lru_cache
def _tables() -> Mapping[str, Model | Shape]:
    return {one.name: one for one in models_of("v10")}


@lru_cache
def _models() -> Mapping[str, Model]:
    return {name: one for name, one in _tables().items() if isinstance(one, Model)}


def _models_called(name: str) -> list[Model]:
    """The model of that name; with ``task`` what every task has beside its kind."""
    models = _models()
    if name != "task":
        return [models[name]]
    return [models["task"], replace(models["noop_task"], borrowed=models["noop_task"].borrowed[:-1])]


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


def _models_in(value: Schema) -> list[Model]:
    """The mappings that a value may be, or be a list of."""
    found: dict[str, Model] = {}
    waiting, seen = [value], set[str]()
    while waiting:
        schema = waiting.pop(0)
        name = str(schema.get("$ref", "")).rpartition("/")[2]
        if name and name not in seen:
            seen.add(name)
            one = _tables()[name]
            if isinstance(one, Shape):
                waiting.insert(0, one.value)
            else:
                found |= {model.name: model for model in _models_called(name)}
        waiting += _parts(schema)
    return list(found.values())


def _parts(schema: Schema) -> list[Schema]:
    """The schemas inside of one, those alone that a value may be."""
    alone = [schema.get(key) for key in ("then", "else", "items")]
    several = [one for key in ("anyOf", "allOf") for one in cast("list[Json]", schema.get(key, []))]
    return [cast("Schema", one) for one in (*several, *alone) if isinstance(one, dict)]


# ---- words -----------------------------------------------------------------------------------------------------------


def _value_in_words(value: Schema) -> str:
    return " or ".join(dict.fromkeys(_words(value))) or "any value"


def _words(value: Schema) -> Iterator[str]:
    if "enum" in value:
        yield f"one of {', '.join(map(str, cast('list[Json]', value['enum'])))}"
    elif "const" in value:
        yield str(value["const"])
    elif "patternErrorMessage" in value:
        yield str(value["patternErrorMessage"]).removeprefix("expected ")
    elif "$ref" in value:
        one = _tables()[str(value["$ref"]).rpartition("/")[2]]
        yield from _words(one.value) if isinstance(one, Shape) else ("a mapping",)
    elif isinstance(value.get("items"), dict):
        yield "a list"
    elif "type" in value:
        types = value["type"]
        yield from (_TYPES[str(one)] for one in (cast("list[Json]", types) if isinstance(types, list) else [types]))
    else:
        for part in _parts(value):
            yield from _words(part)


def _choices(value: Schema) -> Iterator[tuple[str, str]]:
    for word, meaning in zip(_list(value, "enum"), _list(value, "enumDescriptions"), strict=False):
        yield str(word), str(meaning)


def _examples(value: Schema) -> Iterator[Json]:
    yield from _list(value, "examples")
    for part in _parts(value):
        yield from _examples(part)


def _list(value: Schema, key: str) -> list[Json]:
    return cast("list[Json]", value.get(key, []))
