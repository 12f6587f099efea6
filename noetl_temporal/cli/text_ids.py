"""Ids as text in JSON: they exceed 2^53, beyond which many readers of JSON round numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from noetl_compiler.graph import Json

__all__ = ["with_text_ids"]

_SUFFIX = "_id"
_EXACT = 2**53
"""Integers up to here are exact in every reader of JSON."""

_OURS = ("meta", "context")
"""Fields whose own members may be ids of ours, among values of the playbook."""


def with_text_ids(fields: Mapping[str, Json]) -> dict[str, Json]:
    """Return the fields of an account or a row, in which ids are texts."""
    converted = {name: str(value) if _is_id(name, value) else value for name, value in fields.items()}
    for name in _OURS:
        inner = converted.get(name)
        if isinstance(inner, dict):
            converted[name] = {
                key: str(value) if _is_id(key, value) and abs(value) > _EXACT else value
                for key, value in cast("dict[str, Json]", inner).items()
            }
    return converted


def _is_id(name: str, value: Json) -> bool:
    return name.endswith(_SUFFIX) and isinstance(value, int) and not isinstance(value, bool)
