"""Texts and values that are too long for where they stand: an id, a search attribute, a row of the log."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import msgspec

__all__ = ["abridged", "head", "unique_within"]

_CUT = re.compile(r"~[0-9a-f]{32}\Z")
_DIGEST_BYTES = len("~") + 32


def unique_within(text: str, limit: int) -> str:
    """The text in at most ``limit`` bytes: a longer one is cut, and ends in ``~`` and a digest of the whole.

    Two different texts never give the same: one that is short enough but looks cut is given a digest too.
    """
    if len(text) <= limit and "~" not in text and text.isascii():
        return text  # as nearly every id is
    if len(text.encode()) <= limit and not _CUT.search(text):
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:32]
    return f"{head(text, limit - _DIGEST_BYTES)}~{digest}"


def head(text: str, limit: int) -> str:
    """The beginning of the text in at most ``limit`` bytes."""
    return text.encode()[:limit].decode(errors="ignore")


def abridged(value: Any, limit: int) -> Any:
    """The JSON value; ``{"_truncated": true, "_size": bytes}`` where it has more than ``limit`` bytes of JSON."""
    if value is None or isinstance(value, bool | int | float):
        return value
    size = len(msgspec.json.encode(value))
    return value if size <= limit else {"_truncated": True, "_size": size}
