"""Ids as strings in JSON: they exceed 2^53, beyond which many JSON readers round numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from noetl_compiler.graph import Json

__all__ = ["with_text_ids"]

_SUFFIX = "_id"
_MAX_EXACT = 2**53
"""Integers up to this are exact in every JSON reader."""

_FIELDS_WITH_IDS = ("meta", "context")
"""Fields whose members may be ids as well as values of the playbook."""


def with_text_ids(fields: Mapping[str, Json]) -> dict[str, Json]:
    """Return the fields of a report or a row, with ids as strings."""
    text_fields = {name: str(value) if _is_id(name, value) else value for name, value in fields.items()}
    for name in _FIELDS_WITH_IDS:
        inner = text_fields.get(name)
        if isinstance(inner, dict):
            text_fields[name] = {
                key: str(value) if _is_id(key, value) and abs(value) > _MAX_EXACT else value
                for key, value in cast("dict[str, Json]", inner).items()
            }
    return text_fields


def _is_id(name: str, value: Json) -> bool:
    return name.endswith(_SUFFIX) and isinstance(value, int) and not isinstance(value, bool)
