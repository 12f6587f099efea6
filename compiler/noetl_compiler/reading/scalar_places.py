"""The position in the text of a character of a decoded YAML scalar.

How it works. Between a scalar's raw text and its value lie escapes, doubled quotes, indentation and folding. Escapes
and quotes can be resolved one by one; what folding adds, drops or changes is white space and nothing else. So without
white space both are the same characters in the same order, and the n-th of one is the n-th of the other. Where they
are not (a style this page does not know), there is no answer instead of a wrong one.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache

from noetl_compiler.graph import Span
from noetl_compiler.nodes import ScalarNode
from noetl_compiler.source import SourceFile

__all__ = ["span_in_scalar"]

_LONGEST = 200_000
"""Characters of a scalar that are looked at one by one; in a longer one no finding needs to be as exact."""

_BLANK = frozenset(" \t\r\n\x85\u2028\u2029")
_HEADER = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_UNIT = {
    "double": re.compile(r"\\(?:\r\n|x..|u.{4}|U.{8}|.)|.", re.DOTALL),
    "single": re.compile(r"''|.", re.DOTALL),
}
_SHORT = dict(zip("0abefvnrtN_LP", "\0\a\b\x1b\f\v\n\r\t\x85\xa0\u2028\u2029", strict=True))


def span_in_scalar(source: SourceFile, node: ScalarNode, start: int, end: int) -> Span | None:
    """Return the span of ``node.text[start:end]`` without surrounding white space; None if it is blank or unknown."""
    meant, written = _aligned(source, node)
    first, last = bisect_left(meant, start), bisect_left(meant, end)
    return source.span(written[first][0], written[last - 1][1]) if first < last else None


@lru_cache(maxsize=4)
def _aligned(source: SourceFile, node: ScalarNode) -> tuple[list[int], list[tuple[int, int]]]:
    """Return the offsets of the value's characters, and the position of each in the file; empty if they cannot be
    determined.
    """
    if len(node.text) > _LONGEST:
        return [], []
    written = list(_written(source, node))
    meant = [offset for offset, char in enumerate(node.text) if char not in _BLANK]
    if [node.text[offset] for offset in meant] != [char for char, _, _ in written]:
        return [], []
    return meant, [(start, end) for _, start, end in written]


def _written(source: SourceFile, node: ScalarNode) -> Iterator[tuple[str, int, int]]:
    """Yield every character that the raw text encodes, with its start and end offset in the file; no white space."""
    base, raw = source.offset(node.span.line, node.span.col), source.slice(node.span)
    first, last = 0, len(raw)
    if node.style in ("literal", "folded"):
        first = _HEADER.match(raw).end()  # type: ignore[union-attr]  # it matches anything
    elif node.style != "plain":
        first, last = first + 1, last - 1
    for char, start, end in _units(raw, first, last, node.style):
        if char not in _BLANK:
            yield char, base + start, base + end


def _units(raw: str, first: int, last: int, style: str) -> Iterator[tuple[str, int, int]]:
    if style not in _UNIT:
        yield from ((raw[at], at, at + 1) for at in range(first, last))
        return
    for unit in _UNIT[style].finditer(raw, first, last):
        yield _meaning(unit.group()), unit.start(), unit.end()


def _meaning(unit: str) -> str:
    """Return the character that an escape represents; white space for an escaped line break."""
    if len(unit) == 1 or unit == "''":
        return unit[0]
    if unit[1] in "xuU":
        return chr(int(unit[2:], 16))
    return _SHORT.get(unit[1], unit[1])
