"""Graphs without their places, to tell whether two texts say the same."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

import msgspec

from noetl_compiler.graph import Graph, Span, encode

__all__ = ["first_difference", "without_places"]

_NO_SPAN = Span(0, 0, 0, 0)


def without_places(graph: Graph) -> Graph:
    """The graph with every span blank, and without the name of its file and the digest, which depend on them."""
    bare: Graph = _without(graph)
    source = msgspec.structs.replace(bare.source, file="")
    return msgspec.structs.replace(bare, source=source, digest="")


def _without(value: Any) -> Any:
    if isinstance(value, Span):
        return _NO_SPAN
    if isinstance(value, msgspec.Struct):
        fields = value.__struct_fields__
        return msgspec.structs.replace(value, **{name: _without(getattr(value, name)) for name in fields})
    if isinstance(value, tuple):
        return tuple(_without(item) for item in value)
    if isinstance(value, dict):
        return {key: _without(item) for key, item in value.items()}
    return value


def first_difference(one: Graph, other: Graph) -> str:
    """Where two graphs differ, as dotted fields (``steps.fetch.timeout``); empty when they are equal."""
    return "" if one == other else ".".join(_path(*(msgspec.json.decode(encode(graph)) for graph in (one, other))))


def _path(one: Any, other: Any) -> list[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        pairs = {key: (one.get(key), other.get(key)) for key in sorted({*one, *other})}
    elif isinstance(one, list) and isinstance(other, list):
        pairs = {str(index): pair for index, pair in enumerate(zip_longest(one, other))}
    else:
        return []
    found = next((key for key, (left, right) in pairs.items() if left != right), None)
    return [] if found is None else [found, *_path(*pairs[found])]
