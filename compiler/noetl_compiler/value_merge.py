"""One mapping of values over another."""

from __future__ import annotations

from collections.abc import Collection
from typing import cast

from noetl_compiler.graph import Json, Value
from noetl_compiler.graph.contents import pointer

__all__ = ["names_in", "overlay", "picked", "without"]


def overlay(under: Value, over: Value) -> Value:
    """Two mappings as one. Names of ``over`` win unless they are null; what is no mapping wins as a whole."""
    data, over_data = names_in(under), names_in(over)
    if not data or not over_data:
        return over if over.data else under
    hidden: list[str] = []
    for name, value in over_data.items():
        if value is not None or name not in data:
            data[name] = value
            hidden.append(pointer("", name))
    kept = {place: span for place, span in under.templates.items() if not _below(place, hidden)}
    return Value(data, {**kept, **over.templates})


def names_in(value: Value) -> dict[str, Json]:
    """Return a copy of the mapping in a value; empty for any other value."""
    data: Json = value.data
    return dict(cast("dict[str, Json]", data)) if isinstance(data, dict) else {}


def picked(value: Value, names: Collection[str]) -> Value:
    """Only some of the names that a mapping binds, with their templates."""
    data = {name: item for name, item in names_in(value).items() if name in names}
    roots = [pointer("", name) for name in data]
    return Value(data, {place: span for place, span in value.templates.items() if _below(place, roots)})


def without(value: Value, names: Collection[str]) -> Value:
    """Return a mapping without some names; any other value unchanged."""
    own = names_in(value).keys()
    return value if own.isdisjoint(names) else picked(value, own - set(names))


def _below(place: str, roots: list[str]) -> bool:
    return any(place == root or place.startswith(f"{root}/") for root in roots)
