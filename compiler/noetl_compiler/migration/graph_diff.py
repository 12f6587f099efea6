"""Compares graphs without their source positions, to test whether two texts are equivalent."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from noetl_compiler.graph import Graph, Json, Policy, Span, Task, encode
from noetl_compiler.migration.source_lookup import NO_SPAN

__all__ = ["first_difference", "without_spans"]


def without_spans(graph: Graph) -> Graph:
    """Return the graph without spans, and without the file name, digest and retry clauses, which depend on spelling."""
    graph_without_spans: Graph = _drop_spans(graph)
    source = msgspec.structs.replace(graph_without_spans.source, file="")
    return msgspec.structs.replace(graph_without_spans, source=source, digest="")


def _drop_spans(value: Any) -> Any:
    if isinstance(value, Span):
        return NO_SPAN
    if isinstance(value, Task):
        value = msgspec.structs.replace(value, code=None)  # the span of its code in the source
    if isinstance(value, Policy):
        value = msgspec.structs.replace(value, retry_clause=None)  # the text that the rules were read from
    if isinstance(value, msgspec.Struct):
        fields = value.__struct_fields__
        return msgspec.structs.replace(value, **{name: _drop_spans(getattr(value, name)) for name in fields})
    if isinstance(value, tuple):
        return tuple(_drop_spans(item) for item in cast("tuple[Any, ...]", value))
    if isinstance(value, dict):
        return {key: _drop_spans(item) for key, item in cast("dict[Any, Any]", value).items()}
    return value


def first_difference(left: Graph, right: Graph) -> str:
    """Return where two graphs differ, as dotted fields (``steps.fetch.timeout``); empty if they are equal."""
    return (
        ""
        if left == right
        else ".".join(_path_to_difference(*(msgspec.json.decode(encode(graph)) for graph in (left, right))))
    )


def _path_to_difference(left: Json, right: Json) -> list[str]:
    left_parts, right_parts = _parts(left), _parts(right)
    key = next(
        (key for key in sorted({*left_parts, *right_parts}) if left_parts.get(key) != right_parts.get(key)), None
    )
    return [] if key is None else [key, *_path_to_difference(left_parts.get(key), right_parts.get(key))]


def _parts(data: Json) -> dict[str, Json]:
    if isinstance(data, dict):
        return cast("dict[str, Json]", data)
    items = cast("list[Json]", data) if isinstance(data, list) else []
    return {str(index): item for index, item in enumerate(items)}
