"""``script`` as a mapping: code in other files, ``{uri, source: {type, ...}}``.

Once fetched, the mapping has the ``code`` too, and its ``sha256``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, cast

from noetl_compiler.language import keys

__all__ = ["ALL_SOURCE_FIELDS", "MAX_BYTES", "OBJECT_STORES", "SOURCES", "URI_KEYS", "code_in", "source_of"]

_STORE_FIELDS = frozenset({"bucket", "endpoint", "timeout"})

SOURCES: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "file": frozenset[str](),
        "http": frozenset({"endpoint", "method", "headers", "timeout"}),
        "gcs": _STORE_FIELDS | {"project"},
        "s3": _STORE_FIELDS | {"region"},
    }
)
"""Kind of source -> its fields, in addition to the credential."""

OBJECT_STORES: Mapping[str, str] = MappingProxyType({"gcs": "gs", "s3": "s3"})
"""Sources that are object stores -> the scheme of their addresses."""

ALL_SOURCE_FIELDS = frozenset(keys.AUTH).union(*SOURCES.values())

URI_KEYS = ("uri", "path")
"""Keys that hold the address of a script."""

MAX_BYTES = 1_000_000
"""The maximum size of a script."""

_SCHEMES = MappingProxyType({"http": "http", "https": "http", "gs": "gcs", "s3": "s3"})


def source_of(script: Mapping[str, Any]) -> str:
    """Return the kind of a script's source: its declared type, or that of the scheme of its address."""
    source: Any = script.get("source")
    declared_type = cast("Mapping[str, Any]", source).get("type") if isinstance(source, Mapping) else None
    if declared_type is not None:
        return str(declared_type)
    address = next((str(script[name]) for name in URI_KEYS if script.get(name)), "")
    return _SCHEMES.get(address.partition("://")[0].lower(), "file") if "://" in address else "file"


def code_in(script: Any) -> Any:
    """Return the code in the field ``script``: its text, or the fetched code; None if it is not fetched yet."""
    return cast("Mapping[str, Any]", script).get("code") if isinstance(script, Mapping) else script
