"""A graph without its places, to tell whether two texts say the same."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl_compiler.graph import Graph, Span

__all__ = ["without_places"]

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
