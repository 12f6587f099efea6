"""Merge mappings in values, and select some of their names."""

from __future__ import annotations

from collections.abc import Collection
from typing import cast

from noetl_compiler.graph import Json, Value
from noetl_compiler.graph.contents import pointer

__all__ = ["mapping_of", "overlay", "select_names", "without_names"]


def overlay(base: Value, override: Value) -> Value:
    """Merge two mappings. Names of ``override`` take precedence, except those that are null there. If ``override`` is
    not a mapping, such as a template, it replaces ``base``, unless it is empty.
    """
    data, override_data = mapping_of(base), mapping_of(override)
    if not data or not override_data:
        return override if override.data else base
    overridden: list[str] = []
    for name, value in override_data.items():
        if value is not None or name not in data:
            data[name] = value
            overridden.append(pointer("", name))
    remaining = {
        json_pointer: span
        for json_pointer, span in base.templates.items()
        if not _is_at_or_below(json_pointer, overridden)
    }
    return Value(data, {**remaining, **override.templates})


def mapping_of(value: Value) -> dict[str, Json]:
    """Return a copy of the mapping in a value; empty for any other value."""
    data: Json = value.data
    return dict(cast("dict[str, Json]", data)) if isinstance(data, dict) else {}


def select_names(value: Value, names: Collection[str]) -> Value:
    """Return a mapping with only the names in ``names``, and their templates."""
    data = {name: item for name, item in mapping_of(value).items() if name in names}
    roots = [pointer("", name) for name in data]
    return Value(
        data,
        {json_pointer: span for json_pointer, span in value.templates.items() if _is_at_or_below(json_pointer, roots)},
    )


def without_names(value: Value, names: Collection[str]) -> Value:
    """Return a mapping without the names in ``names``; any other value is returned unchanged."""
    all_names = mapping_of(value).keys()
    return value if all_names.isdisjoint(names) else select_names(value, all_names - set(names))


def _is_at_or_below(json_pointer: str, roots: list[str]) -> bool:
    return any(json_pointer == root or json_pointer.startswith(f"{root}/") for root in roots)
