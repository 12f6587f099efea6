"""Which credentials a playbook names: what has to be registered before it can run.

A name may be a template. What it is by default is known where it reads nothing but the workload's defaults. Credentials
of the playbooks it calls are theirs to name. A pure function of the graph.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple, cast

import msgspec

from noetl_compiler.checks.secret_shapes import shapes_in
from noetl_compiler.conditions import bare
from noetl_compiler.graph import Graph, Json, KeychainEntry, Span, Value
from noetl_compiler.graph.calls import Task
from noetl_compiler.graph.contents import pointer
from noetl_compiler.language import keys
from noetl_compiler.language.keychain import CREDENTIAL_FIELDS, SECRETS_ENTRY, SECRETS_TOOL, origin_of
from noetl_compiler.language.scripts import source_of
from noetl_compiler.language.transfers import END_AUTH, ENDS, TRANSFERS
from noetl_compiler.value_merge import names_in

__all__ = ["CredentialName", "credential_names", "credentials_json", "credentials_without_template"]

_NOWHERE = Span(1, 1, 1, 1)
_OF_KEYCHAIN = re.compile(r"keychain\b")
_NAMES = ("credential", "key", "name")
"""Keys of ``auth`` that name a credential; the first one counts."""


class CredentialName(NamedTuple):
    """A credential that a playbook names.

    ``name`` is None where only a run knows it; ``template`` is the expression that gives it, if any.
    """

    name: str | None
    template: str | None = None

    def __str__(self) -> str:
        if self.template is None:
            return str(self.name)
        return self.template if self.name is None else f"{self.template} (default {self.name})"


def credential_names(graph: Graph) -> tuple[CredentialName, ...]:
    """Each once, by name; those that only a run knows come last."""
    defaults = _Defaults(graph)
    found = {name for auth, _ in _auths(tuple(graph.steps.values())) for name in _named(auth.data, "", auth, defaults)}
    for task in _tasks(graph):
        found.update(_of_transfer(task, defaults))
        found.update(_of_script(task, defaults))
    found = {one for one in found if one.template is None or not _OF_KEYCHAIN.match(one.template)}
    found.update(name for entry in graph.keychain for name in _of_entry(entry, defaults))
    tasks = (task for task in _tasks(graph) if task.kind == SECRETS_TOOL)
    found.update(name for task in tasks for name in _of_secret(task.config, defaults))
    return tuple(sorted(found, key=lambda one: (one.name is None, one.name or "", one.template or "")))


def _tasks(graph: Graph) -> Iterator[Task]:
    return (task for step in graph.steps.values() for task in step.tasks)


def _of_transfer(task: Task, defaults: _Defaults) -> Iterator[CredentialName]:
    """Yield what the source and the target of a transfer name."""
    fields = names_in(task.config) if task.kind in TRANSFERS else {}
    for end in ENDS:
        inner: Json = fields.get(end)
        given = cast("dict[str, Json]", inner) if isinstance(inner, dict) else {}
        key = next((key for key in END_AUTH if given.get(key)), None)
        if key is not None:
            yield from _named(given[key], pointer(pointer("", end), key), task.config, defaults)


def _of_script(task: Task, defaults: _Defaults) -> Iterator[CredentialName]:
    """Yield what the source of a script names. It is fetched at submission, and not there any more in a run."""
    script: Json = names_in(task.config).get("script")
    if not isinstance(script, dict) or source_of(cast("dict[str, Json]", script)) == "file":
        return
    given: Json = cast("dict[str, Json]", script).get("source")
    source = cast("dict[str, Json]", given) if isinstance(given, dict) else {}
    key = next((key for key in keys.AUTH if source.get(key)), None)
    if key is not None:
        yield from _named(source[key], f"/script/source/{key}", task.config, defaults)


def _of_entry(entry: KeychainEntry, defaults: _Defaults) -> Iterator[CredentialName]:
    """Yield the credentials of a keychain entry; an entry that workers cannot read is a credential of the same name."""
    config = names_in(entry.config)
    match origin_of(entry.kind, config):
        case "credential" if isinstance(config.get("map"), dict):
            for field, name in cast("dict[str, Json]", config["map"]).items():
                yield from _name(str(name), pointer("/map", field), entry.config, defaults)
        case "credential":
            key = next((key for key in CREDENTIAL_FIELDS if config.get(key)), None)
            named = str(config[key]) if key else entry.name
            yield from _name(named, f"/{key}", entry.config, defaults)
        case "elsewhere":
            yield CredentialName(entry.name)
        case _:
            pass


def _of_secret(config: Value, defaults: _Defaults) -> Iterator[CredentialName]:
    """Yield what the tool ``secrets`` reads, where that is a credential, or would have to be one."""
    fields = names_in(config)
    key = next((key for key in ("secret_name", "name") if isinstance(fields.get(key), str)), None)
    if key is not None and origin_of(SECRETS_ENTRY, fields) in ("credential", "elsewhere"):
        yield from _name(str(fields[key]), f"/{key}", config, defaults)


def credentials_without_template(graph: Graph, task: Task | None = None) -> Mapping[str, Span]:
    """Those that are named outright, in the order of the text, each with the first task, sink or cursor that does; of
    a ``task`` alone if it is given.
    """
    defaults = _Defaults(graph)
    found: dict[str, Span] = {}
    part = tuple(graph.steps.values()) if task is None else task
    for auth, span in sorted(_auths(part), key=lambda one: one[1]):
        for one in _named(auth.data, "", auth, defaults):
            if one.name is not None and one.template is None:
                found.setdefault(one.name, span)
    for called in _tasks(graph) if task is None else (task,):
        for one in _of_transfer(called, defaults):
            if one.name is not None and one.template is None:
                found.setdefault(one.name, called.span)
    return found


def credentials_json(graph: Graph) -> str:
    """Return a JSON list of ``{name, template}``, one for each credential; the fields may be null."""
    return json.dumps([one._asdict() for one in credential_names(graph)], ensure_ascii=False, separators=(",", ":"))


class _Defaults:
    """The values of templates without a request."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    @cached_property
    def _scope(self) -> Mapping[str, Json]:
        from noetl_compiler.forecasting.static_scope import known_names  # templates, which few names are

        return known_names(self._graph.workload, {})

    def of(self, template: Value) -> str | None:
        from noetl_compiler.forecasting.static_scope import rendered

        found = rendered(template, self._scope)
        return found if isinstance(found, str) and _is_name(found) else None


def _auths(part: object, place: Span = _NOWHERE) -> Iterator[tuple[Value, Span]]:
    """Yield the credentials of tasks, sinks and cursors, with their spans."""
    if isinstance(part, tuple):
        for item in cast("tuple[object, ...]", part):
            yield from _auths(item, place)
    elif isinstance(part, msgspec.Struct):
        place = getattr(part, "span", place)
        for field in part.__struct_fields__:
            found: object = getattr(part, field)
            if field == "auth" and isinstance(found, Value):
                yield found, place
            else:
                yield from _auths(found, place)


def _named(data: Json, place: str, auth: Value, defaults: _Defaults) -> Iterator[CredentialName]:
    """``pg``, ``{key: pg}``, or several by alias. Fields that are given outright name nothing."""
    if isinstance(data, str):
        yield from _name(data, place, auth, defaults)
    elif isinstance(data, dict):
        fields = cast("dict[str, Json]", data)
        key = next((key for key in _NAMES if isinstance(fields.get(key), str)), None)
        if key is not None:
            yield from _name(str(fields[key]), pointer(place, key), auth, defaults)
        for alias, inner in fields.items():
            if isinstance(inner, dict):
                yield from _named(inner, pointer(place, alias), auth, defaults)


def _name(text: str, place: str, auth: Value, defaults: _Defaults) -> Iterator[CredentialName]:
    span = auth.templates.get(place)
    if span is not None:
        yield CredentialName(defaults.of(Value(text, {"": span})), bare(text))
    elif _is_name(text):
        yield CredentialName(text)


def _is_name(text: str) -> bool:
    """A secret in the place of a name is not to be repeated."""
    return bool(text) and not shapes_in(text)
