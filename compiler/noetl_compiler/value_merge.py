"""Merge and select names of mappings in values."""

from __future__ import annotations

from collections.abc import Collection
from typing import cast

from noetl_compiler.graph import Json, Value
from noetl_compiler.graph.contents import pointer

__all__ = ["mapping_of", "overlay", "select_names", "without_names"]


def overlay(under: Value, over: Value) -> Value:
    """Merge two mappings. Names of ``over`` take precedence unless they are null; another value of ``over`` replaces
    all.
    """
    data, over_data = mapping_of(under), mapping_of(over)
    if not data or not over_data:
        return over if over.data else under
    overridden: list[str] = []
    for name, value in over_data.items():
        if value is not None or name not in data:
            data[name] = value
            overridden.append(pointer("", name))
    remaining = {
        json_pointer: span
        for json_pointer, span in under.templates.items()
        if not _is_at_or_below(json_pointer, overridden)
    }
    return Value(data, {**remaining, **over.templates})


def mapping_of(value: Value) -> dict[str, Json]:
    """Return a copy of the mapping in a value; empty for any other value."""
    data: Json = value.data
    return dict(cast("dict[str, Json]", data)) if isinstance(data, dict) else {}


def select_names(value: Value, names: Collection[str]) -> Value:
    """Return a mapping with only some of its names, and their templates."""
    data = {name: item for name, item in mapping_of(value).items() if name in names}
    roots = [pointer("", name) for name in data]
    return Value(
        data,
        {json_pointer: span for json_pointer, span in value.templates.items() if _is_at_or_below(json_pointer, roots)},
    )


def without_names(value: Value, names: Collection[str]) -> Value:
    """Return a mapping without some of its names; any other value is returned unchanged."""
    own_names = mapping_of(value).keys()
    return value if own_names.isdisjoint(names) else select_names(value, own_names - set(names))


def _is_at_or_below(json_pointer: str, roots: list[str]) -> bool:
    return any(json_pointer == root or json_pointer.startswith(f"{root}/") for root in roots)
