"""The two sides of a transfer: its source and its target."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, cast

__all__ = [
    "DEFAULT_CHUNK",
    "DIRECTIONS",
    "KIND_KEYS",
    "SIDES",
    "SIDE_AUTH_KEYS",
    "SNOWFLAKE_TRANSFER",
    "SOURCES",
    "TARGETS",
    "TRANSFER",
    "TRANSFERS",
    "kind_of",
    "target_of",
]

TRANSFER = "transfer"
SNOWFLAKE_TRANSFER = "snowflake_transfer"
TRANSFERS = frozenset({TRANSFER, SNOWFLAKE_TRANSFER})

SIDES = ("source", "target")
SIDE_AUTH_KEYS = ("auth", "credential")
"""Keys that name the credential of a source or target, in the order in which they are tried."""

SOURCES = ("postgres", "duckdb", "snowflake", "http")
TARGETS = SOURCES

KIND_KEYS = ("type", "kind", "tool")
"""Keys that name the kind of a source or target."""

DIRECTIONS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {"sf_to_pg": ("snowflake", "postgres"), "pg_to_sf": ("postgres", "snowflake")}
)
"""Direction -> the kinds of source and target."""

DEFAULT_CHUNK = 1_000
"""Rows that are read and stored at a time."""


def kind_of(side: object) -> str | None:
    """Return the kind of a source or target as written; None if there is none."""
    if not isinstance(side, Mapping):
        return None
    fields = cast("Mapping[str, Any]", side)
    return next((str(fields[key]) for key in KIND_KEYS if fields.get(key)), None)


def target_of(config: Mapping[str, Any]) -> str | None:
    """Return the kind of the target of a transfer, from its fields or its direction; None if neither is written."""
    return kind_of(config.get("target")) or DIRECTIONS.get(str(config.get("direction")), (None, None))[1]
