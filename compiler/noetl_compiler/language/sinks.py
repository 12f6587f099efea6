"""The kinds of sinks, their keys with all spellings, and which kinds store in a transaction.

SINK_MODES and SINK_LEVELS in ``words`` declare how rows are stored and how often.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = [
    "AUTH_KEYS",
    "DEFAULT_METHOD",
    "EVENT_KINDS",
    "FLAT_KEYS",
    "IDEMPOTENCY_HEADER",
    "KINDS",
    "KIND_KEYS",
    "REQUIRED_FIELDS",
    "TOOL_KINDS",
    "TRANSACTIONAL_KINDS",
    "VALUE_KEYS",
]

TRANSACTIONAL_KINDS = frozenset({"postgres", "duckdb"})
"""Kinds that store rows and the outcome of the call in one transaction."""

TOOL_KINDS = frozenset({"http", "python"})
"""Kinds that call the tool of that name with the data to store. It may be called more than once for one outcome."""

KINDS = TRANSACTIONAL_KINDS | TOOL_KINDS
"""Kinds that can run; others compile with a warning."""

REQUIRED_FIELDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "postgres": ("table", "statement"),
        "duckdb": ("table", "statement"),
        "snowflake": ("table", "statement"),
        "http": ("url",),
        "python": ("code",),
    }
)
"""Kind -> the fields of which one is required."""

DEFAULT_METHOD = "POST"
"""The method of an http sink that names none."""

IDEMPOTENCY_HEADER = "Idempotency-Key"
"""The header by which the server of an http sink recognizes data that is sent again."""

EVENT_KINDS = frozenset({"", "event", "event_log"})
"""Kinds that mean the event log; a v1 ``save`` without a kind means it too."""

KIND_KEYS = ("tool", "type", "kind", "storage", "backend")
"""Keys that name the kind of a sink."""

AUTH_KEYS = ("auth", "credential", "connection")
"""Keys that name the credential of a sink."""

VALUE_KEYS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "table": ("table",),
        "key": ("key", "keys", "key_columns"),
        "data": ("data", "args", "payload", "values", "with", "from"),
        "statement": ("statement", "command", "commands", "sql", "query"),
        "mapping": ("mapping",),
        "params": ("params",),
        "batch": ("batch", "chunk_size"),
        "url": ("url", "endpoint"),
        "method": ("method",),
        "headers": ("headers",),
        "code": ("code",),
        "database": ("database",),
    }
)
"""Canonical key -> all its spellings, itself included."""

_VALUES = frozenset(name for spellings in VALUE_KEYS.values() for name in spellings)
FLAT_KEYS = frozenset({*KIND_KEYS, *AUTH_KEYS, "mode", *_VALUES}) - {"type", "kind"}
"""The keys of a sink that is written directly on a v1 step."""
