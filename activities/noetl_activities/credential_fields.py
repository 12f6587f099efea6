"""Which types of credentials there are, and the fields of each. No message repeats a value."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

__all__ = ["FIELDS", "METADATA", "field_problem", "unknown_keys"]

FIELDS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "postgres": frozenset(
            {"dsn", "connection_string", "url", "db_host", "host", "db_port", "port", "db_user", "user", "username"}
            | {"db_password", "password", "db_name", "database", "dbname"}
            | {"schema", "sslmode", "ssl", "sslrootcert"}
        ),
        "bearer": frozenset({"token", "access_token", "api_key", "value"}),
        "basic": frozenset({"username", "user", "password"}),
        "api_key": frozenset({"api_key", "key", "value", "token", "header", "header_name"}),
    }
)
"""Type -> the fields that the tools read."""

METADATA = frozenset({"description", "tags"})
"""What is for people alone."""

_ALIASES = {"apikey": "api_key"}


def field_problem(fields: Mapping[Any, Any]) -> str | None:
    """What is wrong with the fields of one credential; None where nothing is. Without a type, the fields of every type
    are allowed.
    """
    given = fields.get("type")
    if given is None:
        return unknown_keys(fields, {key for keys in FIELDS.values() for key in keys})
    name = given.lower() if isinstance(given, str) else ""
    allowed = FIELDS.get(_ALIASES.get(name, name))
    if allowed is None:
        return f"its type is unknown; allowed: {', '.join(FIELDS)}"
    return unknown_keys(fields, allowed)


def unknown_keys(fields: Mapping[Any, Any], allowed: Iterable[str]) -> str | None:
    """``unknown key "tokn" (did you mean "token"?); allowed: ...``."""
    known = {*allowed, *METADATA, "type"}
    unknown = next((key for key in fields if key not in known), None)
    if unknown is None:
        return None
    near = difflib.get_close_matches(str(unknown), known, n=1)
    hint = f' (did you mean "{near[0]}"?)' if near else ""
    return f'unknown key "{unknown}"{hint}; allowed: {", ".join(sorted(known))}'
