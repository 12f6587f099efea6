"""The start of a run: the workload that the request and the playbook's defaults make together (semantics.md 11)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from noetl_compiler import templates
from noetl_compiler.graph import Json, Value
from noetl_compiler.graph.contents import key_in
from noetl_temporal.machine import json_merge

__all__ = ["workload_of"]


def workload_of(defaults: Value, payload: dict[str, Json], execution_id: int, at: int) -> dict[str, Json]:
    """Defaults under the request, deeply. The defaults' own templates render once; the request's text never does.

    Raises TemplateFailure.
    """
    ident = str(execution_id)
    wanted = {pointer: span for pointer, span in defaults.templates.items() if not _overridden(pointer, payload)}
    given: dict[str, Json] = json_merge.merged(defaults.data or {}, payload)
    scope = {
        **given,
        "payload": payload,
        "workload": given,
        "execution_id": ident,
        "job": {"id": ident, "uuid": ident, "execution_id": ident},
        "now": templates.Clock(at),
    }
    rendered = templates.render(Value(defaults.data or {}, wanted), scope)
    found: dict[str, Json] = json_merge.merged(rendered, payload)
    return found


def _overridden(pointer: str, payload: Json) -> bool:
    """Whether the request replaces the value at a JSON pointer."""
    for token in pointer.split("/")[1:]:
        if not isinstance(payload, Mapping):
            return True
        inner, name = cast("Mapping[str, Json]", payload), str(key_in(payload, token))
        if name not in inner:
            return False
        payload = inner[name]
    return True
