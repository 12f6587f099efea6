"""Checks the number and nesting of JSON values in a text without parsing it.

``json.loads`` runs in C and cannot be interrupted, so its input is limited first: 12 MB of empty lists would become
four million objects. Counting must be faster than parsing, also for malicious texts. So linear operations in C reduce
the whole text until only its structure is left:

1. remove escaped backslashes and quotes, then all bytes but quotes, brackets and commas;
2. remove strings, with the brackets and commas in them. Two strings that were separated only by a colon are now
   adjacent, and are removed as one, with the same result;
3. count commas and opening brackets, then remove the commas. Each removal of all ``[]`` removes the innermost level.

Invalid JSON may be miscounted. The parser stops at the first position where the count could be wrong.
"""

from __future__ import annotations

import re

__all__ = ["MAX_DEPTH", "MAX_VALUES", "exceeded_limit", "has_more_values"]

MAX_VALUES = 1_000_000
"""Maximum number of values: about as many as 16 MB of records have. Parsing them takes at most half a second."""

MAX_DEPTH = 100
"""Maximum nesting, the same as for a playbook, because code that reads the value may recurse."""

_STRUCTURE_BYTES = b'"[]{},'
_OTHER_BYTES = bytes(set(range(256)) - set(_STRUCTURE_BYTES))
_STRING = re.compile(rb'"[^"]*"?')
_LISTS_ONLY = bytes.maketrans(b"{}", b"[]")

_TOO_MANY = f"more than {MAX_VALUES:,} values"
_TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels"


def exceeded_limit(text: str) -> str | None:
    """Return a description of the limit that the text exceeds; None if it may be parsed."""
    if len(text) <= MAX_DEPTH:
        return None
    structure = _structure(text.encode(), MAX_VALUES)
    if structure is None:
        return _TOO_MANY
    return _TOO_DEEP if _is_too_deep(structure.translate(_LISTS_ONLY, b",")) else None


def has_more_values(text: bytes, limit: int) -> bool:
    """Whether the text has more than ``limit`` values, at any depth."""
    return len(text) > limit and _structure(text, limit) is None


def _structure(text: bytes, limit: int) -> bytes | None:
    """Return the brackets and commas of the text outside of strings; None if it has more than ``limit`` values."""
    reduced_text = text.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _OTHER_BYTES)
    string_count = reduced_text.count(b'"') // 2
    if string_count > 2 * limit:  # a value has at most one name
        return None
    structure = _STRING.sub(b"", reduced_text.replace(b'""', b""))
    value_count = structure.count(b",") + structure.count(b"[") + structure.count(b"{")
    return None if value_count > limit else structure


def _is_too_deep(brackets: bytes) -> bool:
    for _ in range(MAX_DEPTH):
        remaining = brackets.replace(b"[]", b"")
        if len(remaining) == len(brackets):
            return len(brackets) > MAX_DEPTH  # brackets without a counterpart, if any are left: invalid JSON
        brackets = remaining
    return bool(brackets)
