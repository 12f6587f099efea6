"""Check the number and nesting of JSON values in a text without parsing it.

``json.loads`` runs in C and cannot be interrupted, so its input is limited first: 12 MB of empty lists would be
four million objects. Counting must be faster than parsing, also for malicious texts. So the text is reduced by linear
whole-text operations in C until only its structure is left:

1. remove escaped backslashes and quotes, then all bytes but quotes, brackets and commas;
2. remove strings, with the brackets and commas in them. Where the end of one touches the beginning of the next (only a
   colon was between them), both are removed as one, with the same result;
3. count commas and opening brackets. Then only brackets are left, and each removal of all ``[]`` removes the innermost
   level.

Invalid JSON may be miscounted; the parser rejects it at the first position where the count could be wrong.
"""

from __future__ import annotations

import re

__all__ = ["MAX_DEPTH", "MAX_VALUES", "excess", "has_more_values"]

MAX_VALUES = 1_000_000
"""Maximum number of values: as many as 16 MB of records typically have, and at most half a second of parsing."""

MAX_DEPTH = 100
"""Maximum nesting, the same as for a playbook: code that reads the value later may recurse."""

_STRUCTURE = b'"[]{},'
_OTHERS = bytes(set(range(256)) - set(_STRUCTURE))
_STRING = re.compile(rb'"[^"]*"?')
_LISTS_ONLY = bytes.maketrans(b"{}", b"[]")


def excess(text: str) -> str | None:
    """Describe the limit that the text exceeds; None if it may be parsed."""
    if len(text) <= MAX_DEPTH:
        return None
    outside = _outside_of_strings(text.encode(), MAX_VALUES)
    if outside is None:
        return _TOO_MANY
    return _TOO_DEEP if _is_deep(outside.translate(_LISTS_ONLY, b",")) else None


def has_more_values(text: bytes, most: int) -> bool:
    """Whether the text has more values than ``most``, at any depth."""
    return len(text) > most and _outside_of_strings(text, most) is None


def _outside_of_strings(text: bytes, most: int) -> bytes | None:
    """Return its brackets and commas; None if there are more values than ``most``."""
    kept = text.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _OTHERS)
    strings = kept.count(b'"') // 2
    if strings > 2 * most:  # a value has at most one name
        return None
    outside = _STRING.sub(b"", kept.replace(b'""', b""))
    values = outside.count(b",") + outside.count(b"[") + outside.count(b"{")
    return None if values > most else outside


_TOO_MANY = f"more than {MAX_VALUES:,} values"
_TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels"


def _is_deep(brackets: bytes) -> bool:
    for _ in range(MAX_DEPTH):
        without = brackets.replace(b"[]", b"")
        if len(without) == len(brackets):
            return len(brackets) > MAX_DEPTH  # nothing is left, or what has no other end: no JSON
        brackets = without
    return bool(brackets)
