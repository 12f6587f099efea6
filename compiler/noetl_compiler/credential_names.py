"""List the credentials that a playbook names, which have to be registered before it can run.

A name may be a template. The name that it yields by default is known if it reads only the defaults of the workload.
Credentials of called playbooks are not included.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple, cast

import msgspec

from noetl_compiler.checks.secret_patterns import secret_patterns_in
from noetl_compiler.conditions import strip_braces
from noetl_compiler.graph import Graph, Json, KeychainEntry, Span, Value
from noetl_compiler.graph.calls import Task
from noetl_compiler.graph.contents import pointer
from noetl_compiler.language import keys
from noetl_compiler.language.credentials import NAME_KEYS
from noetl_compiler.language.keychain import CREDENTIAL_FIELDS, SECRETS_ENTRY, SECRETS_TOOL, origin_of
from noetl_compiler.language.scripts import source_of
from noetl_compiler.language.transfers import SIDE_AUTH_KEYS, SIDES, TRANSFERS
from noetl_compiler.value_merge import mapping_of

__all__ = ["CredentialName", "credential_names", "credentials_json", "credentials_without_template"]

_NOWHERE = Span(1, 1, 1, 1)
_KEYCHAIN_PATH = re.compile(r"keychain\b")


class CredentialName(NamedTuple):
    """A credential that a playbook names.

    ``name`` is None if it is known only at run time. ``template`` is the expression that yields it, if any.
    """

    name: str | None
    template: str | None = None

    def __str__(self) -> str:
        if self.template is None:
            return str(self.name)
        return self.template if self.name is None else f"{self.template} (default {self.name})"


def credential_names(graph: Graph) -> tuple[CredentialName, ...]:
    """Return each credential once, by name; those known only at run time come last."""
    defaults = _Defaults(graph)
    names = {
        name
        for auth, _ in _find_auths(tuple(graph.steps.values()))
        for name in _names_of_auth(auth.data, "", auth, defaults)
    }
    for task in _tasks(graph):
        names.update(_names_of_transfer(task, defaults))
        names.update(_names_of_script(task, defaults))
    names = {
        credential_name
        for credential_name in names
        if credential_name.template is None or not _KEYCHAIN_PATH.match(credential_name.template)
    }
    names.update(name for entry in graph.keychain for name in _names_of_entry(entry, defaults))
    tasks = (task for task in _tasks(graph) if task.kind == SECRETS_TOOL)
    names.update(name for task in tasks for name in _names_of_secrets_tool(task.config, defaults))
    return tuple(
        sorted(
            names,
            key=lambda credential_name: (
                credential_name.name is None,
                credential_name.name or "",
                credential_name.template or "",
            ),
        )
    )


def _tasks(graph: Graph) -> Iterator[Task]:
    return (task for step in graph.steps.values() for task in step.tasks)


def _names_of_transfer(task: Task, defaults: _Defaults) -> Iterator[CredentialName]:
    """Yield the credentials that the source and the target of a transfer name."""
    fields = mapping_of(task.config) if task.kind in TRANSFERS else {}
    for side in SIDES:
        side_value: Json = fields.get(side)
        side_fields = cast("dict[str, Json]", side_value) if isinstance(side_value, dict) else {}
        key = next((key for key in SIDE_AUTH_KEYS if side_fields.get(key)), None)
        if key is not None:
            yield from _names_of_auth(side_fields[key], pointer(pointer("", side), key), task.config, defaults)


def _names_of_script(task: Task, defaults: _Defaults) -> Iterator[CredentialName]:
    """Yield the credential that the source of a script names. Scripts are fetched at submission, not in a run."""
    script: Json = mapping_of(task.config).get("script")
    if not isinstance(script, dict) or source_of(cast("dict[str, Json]", script)) == "file":
        return
    source_field: Json = cast("dict[str, Json]", script).get("source")
    source = cast("dict[str, Json]", source_field) if isinstance(source_field, dict) else {}
    key = next((key for key in keys.AUTH if source.get(key)), None)
    if key is not None:
        yield from _names_of_auth(source[key], f"/script/source/{key}", task.config, defaults)


def _names_of_entry(entry: KeychainEntry, defaults: _Defaults) -> Iterator[CredentialName]:
    """Yield the credentials of a keychain entry; an entry that workers cannot read is a credential of the same name."""
    config = mapping_of(entry.config)
    match origin_of(entry.kind, config):
        case "credential" if isinstance(config.get("map"), dict):
            for field, name in cast("dict[str, Json]", config["map"]).items():
                yield from _read_name(str(name), pointer("/map", field), entry.config, defaults)
        case "credential":
            key = next((key for key in CREDENTIAL_FIELDS if config.get(key)), None)
            credential = str(config[key]) if key else entry.name
            yield from _read_name(credential, f"/{key}", entry.config, defaults)
        case "elsewhere":
            yield CredentialName(entry.name)
        case _:
            pass


def _names_of_secrets_tool(config: Value, defaults: _Defaults) -> Iterator[CredentialName]:
    """Yield the credential that the tool ``secrets`` reads, or that replaces a secret which workers cannot read."""
    fields = mapping_of(config)
    key = next((key for key in ("secret_name", "name") if isinstance(fields.get(key), str)), None)
    if key is not None and origin_of(SECRETS_ENTRY, fields) in ("credential", "elsewhere"):
        yield from _read_name(str(fields[key]), f"/{key}", config, defaults)


def credentials_without_template(graph: Graph, task: Task | None = None) -> Mapping[str, Span]:
    """Return the credentials named without a template, in the order of the text, each with the span of the first task,
    sink or cursor that names it. With ``task``, return only those of this task.
    """
    defaults = _Defaults(graph)
    spans: dict[str, Span] = {}
    part = tuple(graph.steps.values()) if task is None else task
    for auth, span in sorted(_find_auths(part), key=lambda auth_and_span: auth_and_span[1]):
        for credential_name in _names_of_auth(auth.data, "", auth, defaults):
            if credential_name.name is not None and credential_name.template is None:
                spans.setdefault(credential_name.name, span)
    for called_task in _tasks(graph) if task is None else (task,):
        for credential_name in _names_of_transfer(called_task, defaults):
            if credential_name.name is not None and credential_name.template is None:
                spans.setdefault(credential_name.name, called_task.span)
    return spans


def credentials_json(graph: Graph) -> str:
    """Return a JSON list of ``{name, template}``, one for each credential; the fields may be null."""
    return json.dumps(
        [credential_name._asdict() for credential_name in credential_names(graph)],
        ensure_ascii=False,
        separators=(",", ":"),
    )


class _Defaults:
    """Renders templates with the defaults of the workload."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    @cached_property
    def _scope(self) -> Mapping[str, Json]:
        from noetl_compiler.forecasting.static_scope import known_names  # slow to import, and few names are templates

        return known_names(self._graph.workload, {})

    def render_name(self, template: Value) -> str | None:
        from noetl_compiler.forecasting.static_scope import try_render

        name = try_render(template, self._scope)
        return name if isinstance(name, str) and _is_safe_name(name) else None


def _find_auths(part: object, span: Span = _NOWHERE) -> Iterator[tuple[Value, Span]]:
    """Yield the ``auth`` of each task, sink and cursor in a part of the graph, with the span of that task, sink or
    cursor.
    """
    if isinstance(part, tuple):
        for item in cast("tuple[object, ...]", part):
            yield from _find_auths(item, span)
    elif isinstance(part, msgspec.Struct):
        span = getattr(part, "span", span)
        for field in part.__struct_fields__:
            value: object = getattr(part, field)
            if field == "auth" and isinstance(value, Value):
                yield value, span
            else:
                yield from _find_auths(value, span)


def _names_of_auth(data: Json, json_pointer: str, auth: Value, defaults: _Defaults) -> Iterator[CredentialName]:
    """Yield the credentials that an ``auth`` names: ``pg``, ``{key: pg}``, or several by alias. One that has the fields
    of a credential itself names none.
    """
    if isinstance(data, str):
        yield from _read_name(data, json_pointer, auth, defaults)
    elif isinstance(data, dict):
        fields = cast("dict[str, Json]", data)
        key = next((key for key in NAME_KEYS if isinstance(fields.get(key), str)), None)
        if key is not None:
            yield from _read_name(str(fields[key]), pointer(json_pointer, key), auth, defaults)
        for alias, inner in fields.items():
            if isinstance(inner, dict):
                yield from _names_of_auth(inner, pointer(json_pointer, alias), auth, defaults)


def _read_name(text: str, json_pointer: str, auth: Value, defaults: _Defaults) -> Iterator[CredentialName]:
    span = auth.templates.get(json_pointer)
    if span is not None:
        yield CredentialName(defaults.render_name(Value(text, {"": span})), strip_braces(text))
    elif _is_safe_name(text):
        yield CredentialName(text)


def _is_safe_name(text: str) -> bool:
    """Whether a name can be shown. A secret that is written in place of a name must not be shown."""
    return bool(text) and not secret_patterns_in(text)
