"""Replaces characters that Postgres cannot store: neither text nor jsonb accepts NUL, and jsonb accepts no lone
surrogate.

Each such character becomes U+FFFD, the replacement character. JSON in history is changed before it is decoded, so that
the state of the fold is the same in memory and after it was stored. Strings of history outside of JSON, such as
messages and identities, are changed when they are written.
"""

from __future__ import annotations

import re

__all__ = ["storable", "storable_text"]

_ESCAPE = re.compile(
    rb"(?P<storable>\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a whole pair
    rb"|\\(?!u0000|u[dD][89a-fA-F]).)"  # any other escape, also that of a backslash before a "u"
    rb"|\\u[0-9a-fA-F]{4}"
)
_REFUSED = re.compile("[\0\ud800-\udfff]")


def storable(json: bytes) -> bytes:
    """Return JSON text that jsonb can store."""
    return _ESCAPE.sub(_replace_unstorable, json) if b"\\u" in json else json


def _replace_unstorable(match: re.Match[bytes]) -> bytes:
    return match["storable"] or rb"\ufffd"


def storable_text(text: str) -> str:
    """Return text that a column of type text can store."""
    return _REFUSED.sub("\ufffd", text)
