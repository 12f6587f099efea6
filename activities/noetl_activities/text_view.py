r"""A text with its escapes decoded, and the original position of each character.

Decodes percent-encoding of UTF-8 (``%C3%BC``), character references of HTML (``&uuml;``, ``&#252;``, ``&#xfc;``) and
escapes with a backslash as in JSON and most languages (``\u00fc``, ``\xfc``, ``\/``), in any mixture.

A text is split at its escapes. The positions of the parts are computed only when needed.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property, lru_cache
from html.entities import html5
from itertools import accumulate
from urllib.parse import unquote_to_bytes

__all__ = ["ESCAPE_STARTS", "MAX_ESCAPES", "TextView", "decode_level"]

MAX_ESCAPES = 1_000_000
"""Maximum number of escapes in a text: decoding them takes about 0.5 s and 100 MB."""

ESCAPE_STARTS = ("%", "&", "\\")

_ESCAPE = re.compile(
    r"""(
      % (?: [0-7][0-9a-f]
          | [cd][0-9a-f] %[89ab][0-9a-f]
          | e[0-9a-f] (?: %[89ab][0-9a-f] ){2}
          | f[0-7] (?: %[89ab][0-9a-f] ){3} )
    | & (?: \#\d{1,7} | \#x[0-9a-f]{1,6} | [a-z]{2,8} ) ;
    | \\ (?: u d[89ab][0-9a-f]{2} \\ u d[c-f][0-9a-f]{2} | u[0-9a-f]{4} | x[0-9a-f]{2} | ["'\\/bfnrt] )
    )""",
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_LETTER_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class TextView:
    """A text, or the text of another view with one level of escapes decoded.

    ``source`` is the other view. ``parts`` are the parts of its text: every second one is an escape.
    """

    def __init__(self, text: str, source: TextView | None = None, parts: list[str] | None = None) -> None:
        self.text = text
        self._source = source
        self._parts = parts or []

    @classmethod
    def from_parts(cls, source: TextView, parts: list[str]) -> TextView:
        """Return the view in which the escapes among the parts are decoded."""
        decoded_parts = parts.copy()
        decoded_parts[1::2] = map(_character, parts[1::2])
        return cls("".join(decoded_parts), source, parts)

    @cached_property
    def _starts(self) -> tuple[list[int], list[int]]:
        """The start of each part in this view, and in the other view."""
        sizes = (len(part) if index % 2 == 0 else len(_character(part)) for index, part in enumerate(self._parts))
        return list(accumulate(sizes, initial=0)), list(accumulate(map(len, self._parts), initial=0))

    def original_position(self, position: int) -> int:
        """Return the position in the original text for a position in this view."""
        if self._source is None:
            return position
        starts, other_starts = self._starts
        index = bisect_right(starts, position) - 1
        return self._source.original_position(other_starts[index] + position - starts[index])


def decode_level(view: TextView) -> TextView | None:
    """Return the view with one more level of escapes decoded; None if there are none. Raises ValueError over
    MAX_ESCAPES.
    """
    if not any(start in view.text for start in ESCAPE_STARTS):
        return None
    parts = _ESCAPE.split(view.text, MAX_ESCAPES + 1)
    if len(parts) == 1:
        return None
    if len(parts) // 2 > MAX_ESCAPES:
        raise ValueError(f"over {MAX_ESCAPES:,} escapes")
    return TextView.from_parts(view, parts)


@lru_cache(maxsize=4096)
def _character(escape: str) -> str:
    """Return the character that an escape represents; the escape itself if it is invalid."""
    body = escape[1:]
    character = (
        _percent_character(escape)
        if escape[0] == "%"
        else _html_character(body[:-1])
        if escape[0] == "&"
        else _backslash_character(body)
    )
    return character if len(character) == 1 else escape


def _percent_character(escape: str) -> str:
    return unquote_to_bytes(escape).decode("utf-8", "replace")


def _html_character(name: str) -> str:
    """Return the character of an HTML reference: a number, or a name."""
    if not name.startswith("#"):
        return html5.get(f"{name};") or html5.get(f"{name.lower()};", "")
    number = int(name[2:], 16) if name[1] in "xX" else int(name[1:])
    return chr(number) if number < 0x110000 else ""


def _backslash_character(body: str) -> str:
    if len(body) == len("uD83D\\uDE00"):
        return chr(0x10000 + ((int(body[1:5], 16) & 0x3FF) << 10) + (int(body[7:], 16) & 0x3FF))
    if body[0] in "uUxX" and len(body) > 1:
        return chr(int(body[1:], 16))
    return _LETTER_ESCAPES.get(body.lower(), body)
