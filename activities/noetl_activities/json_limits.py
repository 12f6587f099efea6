"""Check the number and nesting of JSON values in a text without parsing it.

``json.loads`` runs in C and cannot be interrupted, so its work is bounded beforehand: 12 MB of empty lists would be
four million objects. Counting must cost less than parsing, for texts that are made to be slow too. So the text is
reduced by whole-text operations in C, each linear, until only its structure is left:

1. escaped backslashes and quotes go, then all bytes but quotes, brackets and commas;
2. strings go, with the brackets and commas in them. Where the end of one touches the beginning of the next (only a
   colon stood between), the two are taken as one, which changes nothing outside of them;
3. commas and opening brackets are counted. Then brackets alone are left, and each removal of all ``[]`` takes away the
   innermost level.

What is no JSON may be misjudged; the parser refuses it at the first place where this counting could be wrong.
"""

from __future__ import annotations

import re

__all__ = ["MAX_DEPTH", "MAX_VALUES", "excess", "has_more_values"]

MAX_VALUES = 1_000_000
"""Numbers, texts, lists and maps: what 16 MB of records commonly have, and half a second of parsing at most."""

MAX_DEPTH = 100
"""Levels, as of a playbook: what reads the value later may recurse."""

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
