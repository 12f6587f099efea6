"""The workload of a run: the defaults of the playbook, overridden by the request (semantics.md 11)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from noetl_compiler import templates
from noetl_compiler.graph import Graph, Json, Span, Value
from noetl_compiler.graph.contents import merge_json, pointer, templates_in, tokens_of

__all__ = ["is_read_at_start", "workload_of"]


def is_read_at_start(graph: Graph, name: str) -> bool:
    """Whether a template that is rendered when a run starts may read this value of the request: one in a default, or in
    the timeout of the playbook. A stored value is not loaded then.
    """
    if any(templates_in(graph.timeout)):
        return True
    paths = {path for template in templates_in(graph.workload) for path in templates.read_paths(template.source)}
    return any(path in ("workload", "payload") or f".{name}." in f".{path}." for path in paths)


def workload_of(defaults: Value, payload: dict[str, Json], execution_id: int, at: int) -> dict[str, Json]:
    """Return the defaults deep-merged with the request. Templates in defaults are rendered once, text of the request
    never. A default that reads its own name, ``{{ tenant | default("a") }}``, gets the value of the request, and is
    rendered before others. Raises TemplateFailure.
    """
    data: dict[str, Json] = defaults.data or {}
    unrendered = {path: span for path, span in defaults.templates.items() if not _is_overridden(path, payload)}
    run = _names_of_run(payload, execution_id, at)
    recursive = _self_referencing(data, unrendered)
    while recursive:
        name = next(
            (name for name, read in recursive.items() if not read & (recursive.keys() - {name})), next(iter(recursive))
        )
        others = merge_json({name: value for name, value in data.items() if name not in recursive}, payload)
        default = Value(data[name], {"": unrendered.pop(pointer("", name))})
        data = {**data, name: templates.render(default, {**others, "workload": others, **run})}
        del recursive[name]
    names: dict[str, Json] = merge_json(data, payload)
    values = templates.render(Value(data, unrendered), {**names, "workload": names, **run})
    workload: dict[str, Json] = merge_json(values, payload)
    return workload


def _self_referencing(data: Mapping[str, Json], spans: Mapping[str, Span]) -> dict[str, set[str]]:
    """Return the defaults whose template reads its own name, each with all names that it reads."""
    sources = {name: str(value) for name, value in data.items() if pointer("", name) in spans}
    read = {
        name: {path.removeprefix("workload.").partition(".")[0] for path in templates.read_paths(source)}
        for name, source in sources.items()
    }
    return {name: names for name, names in read.items() if name in names}


def _names_of_run(payload: dict[str, Json], execution_id: int, at: int) -> dict[str, Any]:
    ident = str(execution_id)
    return {
        "payload": payload,
        "execution_id": ident,
        "job": {"id": ident, "uuid": ident, "execution_id": ident},
        "now": templates.Clock(at),
    }


def _is_overridden(pointer: str, payload: Json) -> bool:
    """Whether the request replaces the value at a JSON pointer."""
    for name in tokens_of(pointer):
        if not isinstance(payload, Mapping):
            return True
        inner = cast("Mapping[str, Json]", payload)
        if name not in inner:
            return False
        payload = inner[name]
    return True
