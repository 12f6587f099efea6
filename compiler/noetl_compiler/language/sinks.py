"""What a sink is made of: its kinds, its keys under every spelling, and which kinds store in a transaction.

How rows are stored and how often is in ``words``: SINK_MODES and SINK_LEVELS.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["AUTH_KEYS", "EVENT_KINDS", "FLAT_KEYS", "KINDS", "KIND_KEYS", "STORES", "VALUE_KEYS"]

STORES = frozenset({"postgres", "duckdb"})
"""Kinds that can run: they store rows and the outcome of the call in one transaction."""

KINDS = STORES | {"http", "python"}
"""Kinds that a sink may name without being misspelt; those outside of STORES compile with a warning."""

EVENT_KINDS = frozenset({"", "event", "event_log"})
"""Kinds that mean the event log, as a v1 ``save`` without any does."""

KIND_KEYS = ("tool", "type", "kind", "storage", "backend")
"""Where a sink may say what it stores in."""

AUTH_KEYS = ("auth", "credential", "connection")
"""Where it may name its credential."""

VALUE_KEYS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "table": ("table",),
        "key": ("key", "keys", "key_columns"),
        "data": ("data", "args", "payload", "values", "with", "from"),
        "statement": ("statement", "command", "commands", "sql", "query"),
        "params": ("params",),
        "batch": ("batch", "chunk_size"),
        "url": ("url", "endpoint"),
        "method": ("method",),
        "headers": ("headers",),
        "code": ("code",),
        "database": ("database",),
    }
)
"""The key that the sink's executor knows -> the names that a playbook may write for it."""

_VALUES = frozenset(name for spellings in VALUE_KEYS.values() for name in spellings)
FLAT_KEYS = frozenset({*KIND_KEYS, *AUTH_KEYS, "mode", *_VALUES}) - {"type", "kind"}
"""The keys of a sink that stands flat on a v1 step."""
