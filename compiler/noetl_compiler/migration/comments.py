"""The comments of a YAML text.

PyYAML's scanner drops comments, but gives the start and end of each token. Between two tokens there are only white
space and comments, so every ``#`` there begins a comment, and a ``#`` in a string or a block scalar does not. The
exception is the header line of a block scalar (``|  # like this``), which is part of its token.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import yaml

from noetl_compiler.source import SourceFile

__all__ = ["Comment", "comments_of"]

_COMMENT = re.compile(r"#[^\r\n]*")
_HEADER_COMMENT = re.compile(r"[|>][0-9+-]*[ \t]+(#[^\r\n]*)")
_BREAK = r"(?:\r\n|\r(?!\n)|\n)"
_BLANK_LINE = re.compile(rf"{_BREAK}[ \t]*{_BREAK}[ \t]*\Z")


class Comment(msgspec.Struct, frozen=True):
    """A comment. ``text`` includes its ``#``.

    ``is_trailing``: the comment follows something on its line.
    """

    text: str
    offset: int
    line: int
    is_trailing: bool
    follows_blank_line: bool


def comments_of(source: SourceFile) -> tuple[Comment, ...]:
    """Return all comments of a text that is valid YAML, in order."""
    return tuple(_comment(source, start, end) for start, end in _comment_ranges(source.text))


def _comment_ranges(text: str) -> Iterator[tuple[int, int]]:
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    end = 0
    try:
        while (token := loader.get_token()) is not None:
            start = max(end, token.start_mark.index)
            yield from (match.span() for match in _COMMENT.finditer(text, end, start))
            if isinstance(token, yaml.ScalarToken) and (header := _HEADER_COMMENT.match(text, start)):
                yield header.span(1)
            end = max(start, token.end_mark.index)
    finally:
        loader.dispose()
    yield from (match.span() for match in _COMMENT.finditer(text, end))


def _comment(source: SourceFile, start: int, end: int) -> Comment:
    line, col = source.position(start)
    before = source.text[:start]
    return Comment(
        source.text[start:end].rstrip(),
        start,
        line,
        is_trailing=bool(source.line(line)[: col - 1].strip()),
        follows_blank_line=_BLANK_LINE.search(before, max(0, start - 200)) is not None,
    )
