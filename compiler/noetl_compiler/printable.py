"""Escape text so that a terminal, a page or a log can show it safely.

A terminal interprets some characters instead of showing them. ESC and the C1 controls begin sequences that move the
cursor, hide text, set titles or make links (OSC 8); a carriage return overwrites the line; bidirectional controls
change the order in which a line is read. Names, errors and results come from playbooks, servers and databases, so any
of them may contain such characters.

Allowed are the characters that Unicode calls printable, spaces of any width, line breaks, tabs, and the two joiners
used in Persian and emoji. All others are replaced by Python's escape (``\\x1b``, ``\\u202e``), so that nothing is
hidden; in JSON by JSON's escape, which keeps the value. The functions are idempotent.
"""

from __future__ import annotations

import json
import re
import unicodedata

__all__ = ["printable", "printable_json", "printable_line"]

_MAYBE_UNPRINTABLE = re.compile(r"[^\n\t -~]")
_JOINERS = "\u200c\u200d"
_SPACES = str.maketrans(dict.fromkeys("\t\n\v\f\r", " "))


def printable(text: str) -> str:
    """Return the text with characters that are not printable escaped, except line breaks and tabs."""
    return _MAYBE_UNPRINTABLE.sub(_escape, text)


def printable_line(text: str) -> str:
    """Escape the text and return it on one line: each line break and tab becomes a space."""
    return printable(text.translate(_SPACES))


def printable_json(text: str) -> str:
    """Return equivalent JSON text with characters that are not printable escaped."""
    return _MAYBE_UNPRINTABLE.sub(_escape_in_json, text)


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    return char if _is_printable(char) else char.encode("unicode_escape").decode()


def _escape_in_json(match: re.Match[str]) -> str:
    char = match[0]
    return char if _is_printable(char) else json.dumps(char)[1:-1]


def _is_printable(char: str) -> bool:
    return char.isprintable() or char in _JOINERS or unicodedata.category(char) == "Zs"
