"""``script`` as a mapping: code in other files, ``{uri, source: {type, ...}}``.

Once fetched, the mapping has the ``code`` too, and its ``sha256``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, cast

from noetl_compiler.language import keys

__all__ = ["ANY_FIELD", "MAX_BYTES", "SOURCES", "STORES", "URIS", "code_in", "source_of"]

_OF_STORES = frozenset({"bucket", "endpoint", "timeout"})

SOURCES: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "file": frozenset[str](),
        "http": frozenset({"endpoint", "method", "headers", "timeout"}),
        "gcs": _OF_STORES | {"project"},
        "s3": _OF_STORES | {"region"},
    }
)
"""Kind of source -> its fields, in addition to the credential."""

STORES: Mapping[str, str] = MappingProxyType({"gcs": "gs", "s3": "s3"})
"""Sources that are object stores -> the scheme of their addresses."""

ANY_FIELD = frozenset(keys.AUTH).union(*SOURCES.values())

URIS = ("uri", "path")
"""Where a script may say which one it is."""

MAX_BYTES = 1_000_000
"""The maximum size of a script."""

_SCHEMES = MappingProxyType({"http": "http", "https": "http", "gs": "gcs", "s3": "s3"})


def source_of(script: Mapping[str, Any]) -> str:
    """The kind of a script's source: its declared type, else derived from the scheme of its address."""
    source: Any = script.get("source")
    found = cast("Mapping[str, Any]", source).get("type") if isinstance(source, Mapping) else None
    if found is not None:
        return str(found)
    address = next((str(script[name]) for name in URIS if script.get(name)), "")
    return _SCHEMES.get(address.partition("://")[0].lower(), "file") if "://" in address else "file"


def code_in(script: Any) -> Any:
    """The code in the field ``script``: its text, or the fetched code; None if it is not fetched yet."""
    return cast("Mapping[str, Any]", script).get("code") if isinstance(script, Mapping) else script
