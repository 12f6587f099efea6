"""The position in the file of each character of a decoded YAML scalar.

The raw text of a scalar differs from its value by escapes, doubled quotes, indentation and folding. Escapes and quotes
are decoded one by one; folding and indentation change only white space. So without white space both have the same
characters in the same order, and the n-th character of one is the n-th of the other. If they differ nevertheless, the
position is unknown.
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

_MAX_CHARS = 200_000
"""Longer scalars are not aligned: a diagnostic in them has the span of the whole scalar."""

_BLANK = frozenset(" \t\r\n\x85\u2028\u2029")
_HEADER = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_UNIT = {
    "double": re.compile(r"\\(?:\r\n|x..|u.{4}|U.{8}|.)|.", re.DOTALL),
    "single": re.compile(r"''|.", re.DOTALL),
}
_ESCAPES = dict(zip("0abefvnrtN_LP", "\0\a\b\x1b\f\v\n\r\t\x85\xa0\u2028\u2029", strict=True))


def span_in_scalar(source: SourceFile, node: ScalarNode, start: int, end: int) -> Span | None:
    """Return the span of ``node.text[start:end]`` without surrounding white space; None if it is blank or unknown."""
    offsets, ranges = _align(source, node)
    first, last = bisect_left(offsets, start), bisect_left(offsets, end)
    return source.span(ranges[first][0], ranges[last - 1][1]) if first < last else None


@lru_cache(maxsize=4)
def _align(source: SourceFile, node: ScalarNode) -> tuple[list[int], list[tuple[int, int]]]:
    """Return the offset of each character of the value, without white space, and its range in the file; empty lists if
    they cannot be determined.
    """
    if len(node.text) > _MAX_CHARS:
        return [], []
    characters = list(_encoded_characters(source, node))
    offsets = [offset for offset, char in enumerate(node.text) if char not in _BLANK]
    if [node.text[offset] for offset in offsets] != [char for char, _, _ in characters]:
        return [], []
    return offsets, [(start, end) for _, start, end in characters]


def _encoded_characters(source: SourceFile, node: ScalarNode) -> Iterator[tuple[str, int, int]]:
    """Yield every character that the raw text encodes, except white space, with its range of offsets in the file."""
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
        yield from ((raw[position], position, position + 1) for position in range(first, last))
        return
    for unit in _UNIT[style].finditer(raw, first, last):
        yield _decode_unit(unit.group()), unit.start(), unit.end()


def _decode_unit(unit: str) -> str:
    """Return the character that an escape represents; white space for an escaped line break."""
    if len(unit) == 1 or unit == "''":
        return unit[0]
    if unit[1] in "xuU":
        return chr(int(unit[2:], 16))
    return _ESCAPES.get(unit[1], unit[1])
