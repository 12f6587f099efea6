"""Text as a terminal, a page or a log may show it.

How it works. A terminal obeys some characters instead of showing them. ESC, and with it all of the C1 controls, begins
sequences that move the cursor, hide text, set titles or make links (OSC 8); a carriage return overwrites the
line; bidirectional controls let a line be read in another order than it is written. Names, errors and results come
from playbooks, servers and databases, so any of them may hold such characters.

The rule allows by kind and forbids nothing by name. Shown as they are: what Unicode calls printable, spaces of any
width, line breaks, tabs, and the two joiners that Persian and emoji are written with. All else is shown as the escape
that Python writes for it (``\\x1b``, ``\\u202e``), so that nothing vanishes; in JSON as JSON's own escape, which keeps
the value. What these functions return they return unchanged when it is given to them again.
"""

from __future__ import annotations

import json
import re
import unicodedata

__all__ = ["printable", "printable_json", "printable_line"]

_PERHAPS_NOT = re.compile(r"[^\n\t -~]")
_JOINERS = "\u200c\u200d"
_SPACES = str.maketrans(dict.fromkeys("\t\n\v\f\r", " "))


def printable(text: str) -> str:
    """Return the text with characters that are not printable escaped, except line breaks and tabs."""
    return _PERHAPS_NOT.sub(_escaped, text)


def printable_line(text: str) -> str:
    """The same on one line: each line break and tab becomes a space."""
    return printable(text.translate(_SPACES))


def printable_json(text: str) -> str:
    """Return equivalent JSON text with characters that are not printable escaped."""
    return _PERHAPS_NOT.sub(_escaped_in_json, text)


def _escaped(found: re.Match[str]) -> str:
    char = found[0]
    return char if _is_printable(char) else char.encode("unicode_escape").decode()


def _escaped_in_json(found: re.Match[str]) -> str:
    char = found[0]
    return char if _is_printable(char) else json.dumps(char)[1:-1]


def _is_printable(char: str) -> bool:
    return char.isprintable() or char in _JOINERS or unicodedata.category(char) == "Zs"
