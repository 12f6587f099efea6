"""Shortens texts and values that exceed the maximum size of an id, a search attribute or a row of the log."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

import msgspec

__all__ = ["abridge", "abridge_values", "excess_size", "truncate", "unique_within"]

_TRUNCATED = re.compile(r"~[0-9a-f]{32}\Z")
_DIGEST_BYTES = len("~") + 32
_NUMBERS = (bool, int, float)  # a union type would be created by every call
_encode = msgspec.json.Encoder().encode


def unique_within(text: str, limit: int) -> str:
    """Return the text in at most ``limit`` bytes: a longer text is truncated, and ends with ``~`` and a digest of the
    whole text.

    Different texts have different results: a short text that looks like a truncated one gets a digest too.
    """
    if len(text) <= limit and "~" not in text and text.isascii():
        return text  # true of nearly every id, and fast
    if len(text.encode()) <= limit and not _TRUNCATED.search(text):
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:32]
    return f"{truncate(text, limit - _DIGEST_BYTES)}~{digest}"


def truncate(text: str, limit: int) -> str:
    """Return the beginning of the text in at most ``limit`` bytes."""
    return text.encode()[:limit].decode(errors="ignore")


def abridge_values(values: Mapping[str, Any], limit: int) -> dict[str, Any]:
    """Return the mapping; if it has more than ``limit`` bytes as JSON, its values over a tenth of that are abridged."""
    short_values = abridge(dict(values), limit)
    return (
        short_values
        if "_truncated" not in short_values
        else {name: abridge(value, limit // 10) for name, value in values.items()}
    )


def abridge(value: Any, limit: int) -> Any:
    """Return the JSON value; ``{"_truncated": true, "_size": SIZE}`` if it has more than ``limit`` bytes as JSON."""
    size = excess_size(value, limit)
    return value if size is None else {"_truncated": True, "_size": size}


def excess_size(value: Any, limit: int) -> int | None:
    """Return the size of the JSON value in bytes; None if it has at most ``limit``."""
    if value is None or isinstance(value, _NUMBERS):
        return None
    size = len(_encode(value))
    return size if size > limit else None
