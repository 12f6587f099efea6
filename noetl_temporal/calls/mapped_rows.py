"""Renders the configuration of a sink, and the templates in its ``mapping`` for each row, which they see as ``row``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from noetl_activities.sinks.data import Row, sink_rows
from noetl_compiler import templates
from noetl_compiler.graph import Json, Value
from noetl_compiler.graph.contents import pointer
from noetl_compiler.language.names import ROW
from noetl_compiler.value_merge import select_names, without_names
from noetl_temporal.machine.scope import Chain, sink_config

__all__ = ["render_sink"]

_MAPPING = "mapping"


def render_sink(config: Value, scope: Mapping[str, Any], content: Json) -> dict[str, Json]:
    """Return the rendered configuration of a sink. If columns of its ``mapping`` have templates, the mapping is applied
    here: the result has the mapped rows as ``data`` and no ``mapping``. The rows to map are the ``data`` of the
    configuration, or else ``content``. Raises TemplateFailure, ToolError.
    """
    mapping = select_names(config, [_MAPPING])
    if not mapping.templates or pointer("", _MAPPING) in mapping.templates:
        return sink_config(config, scope)
    rendered_config = sink_config(without_names(config, [_MAPPING]), scope)
    return {**rendered_config, "data": _map_rows(mapping, rendered_config.get("data"), content, scope)}


def _map_rows(mapping: Value, data: Json, content: Json, scope: Mapping[str, Any]) -> list[Row]:
    columns = cast("dict[str, Json]", mapping.data[_MAPPING])
    template_columns = {name for name in columns if _has_template(mapping, pointer(f"/{_MAPPING}", name))}
    plain = {name: column for name, column in columns.items() if name not in template_columns}
    rows = sink_rows({"data": data}, content)
    fields = sink_rows({"data": data, _MAPPING: plain}, content)
    mapped_rows: list[Row] = []
    for row, row_fields in zip(rows, fields, strict=True):
        values = templates.render(mapping, Chain({ROW: row}, scope))[_MAPPING]
        mapped_rows.append({name: values[name] if name in template_columns else row_fields[name] for name in columns})
    return mapped_rows


def _has_template(mapping: Value, column_pointer: str) -> bool:
    return any(path == column_pointer or path.startswith(f"{column_pointer}/") for path in mapping.templates)
