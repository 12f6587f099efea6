"""Compares graphs without their source positions, to test whether two texts are equivalent."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from noetl_compiler.graph import Graph, Json, Policy, Span, Task, encode

__all__ = ["first_difference", "without_places"]

_NO_SPAN = Span(0, 0, 0, 0)


def without_places(graph: Graph) -> Graph:
    """Return the graph without spans, and without the file name, digest and retry clauses, which depend on spelling."""
    bare: Graph = _without(graph)
    source = msgspec.structs.replace(bare.source, file="")
    return msgspec.structs.replace(bare, source=source, digest="")


def _without(value: Any) -> Any:
    if isinstance(value, Span):
        return _NO_SPAN
    if isinstance(value, Task):
        value = msgspec.structs.replace(value, code=None)  # SQL has a place only where it is text
    if isinstance(value, Policy):
        value = msgspec.structs.replace(value, clause=None)  # the text that the rules were read from
    if isinstance(value, msgspec.Struct):
        fields = value.__struct_fields__
        return msgspec.structs.replace(value, **{name: _without(getattr(value, name)) for name in fields})
    if isinstance(value, tuple):
        return tuple(_without(item) for item in cast("tuple[Any, ...]", value))
    if isinstance(value, dict):
        return {key: _without(item) for key, item in cast("dict[Any, Any]", value).items()}
    return value


def first_difference(one: Graph, other: Graph) -> str:
    """Return where two graphs differ, as dotted fields (``steps.fetch.timeout``); empty when they are equal."""
    return "" if one == other else ".".join(_path(*(msgspec.json.decode(encode(graph)) for graph in (one, other))))


def _path(one: Json, other: Json) -> list[str]:
    parts, others = _parts(one), _parts(other)
    found = next((key for key in sorted({*parts, *others}) if parts.get(key) != others.get(key)), None)
    return [] if found is None else [found, *_path(parts.get(found), others.get(found))]


def _parts(data: Json) -> dict[str, Json]:
    if isinstance(data, dict):
        return cast("dict[str, Json]", data)
    items = cast("list[Json]", data) if isinstance(data, list) else []
    return {str(index): item for index, item in enumerate(items)}
