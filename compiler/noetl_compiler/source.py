"""The playbook's text, and the way from an offset in it to the line and column a person reads.

Offsets count characters of the text; lines and columns are 1-based and a column counts characters. Only
``\\n``, ``\\r\\n`` and ``\\r`` end a line here, as in editors, although YAML 1.1 knows more.

Places inside a scalar. The decoded value of a YAML scalar has lost its place: folding, escapes, doubled
quotes and indentation lie between it and the text. They never touch the delimiters of a template, so the n-th
``{{`` of the value is the n-th ``{{`` of the raw slice, and the same holds for the closing ``}}``. Where the
two counts differ (an escape such as ``\\x7b`` wrote a brace) there is no honest answer but the whole scalar.
"""

from __future__ import annotations

import bisect
import re
from array import array
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal, TypeAlias

from noetl_compiler.graph import Span

__all__ = ["ScalarStyle", "SourceFile", "Span", "expression_spans", "expressions"]

ScalarStyle: TypeAlias = Literal["plain", "single", "double", "literal", "folded"]

_BYTE_ORDER_MARK = "\ufeff"
_LINE_BREAK = re.compile(r"\r\n|\r|\n")
_LINE_FEED = re.compile(r"\n")
"""The same in a text without ``\\r``, found much faster."""
_OPENING = re.compile(r"\{\{|\{%")
_CLOSING = re.compile(r"\}\}|%\}")
_COMMENT_OR_OPENING = re.compile(r"\{#.*?(?:#\}|\Z)|\{\{|\{%", re.DOTALL)
_STRING = r"'(?:\\.|[^'\\])*+\\?'?|\"(?:\\.|[^\"\\])*+\\?\"?"  # an unclosed one runs to the end, once
_UNTIL_END = {
    "{{": re.compile(rf"{_STRING}|\}}\}}|[(\[{{]", re.DOTALL),
    "{%": re.compile(rf"{_STRING}|%\}}|[(\[{{]", re.DOTALL),
}
_QUOTES: dict[ScalarStyle, int] = {"plain": 0, "single": 1, "double": 1}
_NESTED = re.compile(rf"{_STRING}|[()\[\]{{}}]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A text with its name. ``file`` is as the user gave it, and is part of every diagnostic. A byte order mark is no
    part of the text, as in editors.
    """

    file: str
    text: str
    _starts: array[int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.text.startswith(_BYTE_ORDER_MARK):
            object.__setattr__(self, "text", self.text[1:])
        breaks = (_LINE_BREAK if "\r" in self.text else _LINE_FEED).finditer(self.text)
        object.__setattr__(self, "_starts", array("L", chain((0,), (found.end() for found in breaks))))

    def position(self, offset: int) -> tuple[int, int]:
        """Return the 1-based line and column of an offset; an offset beyond the text is its end."""
        offset = max(0, min(offset, len(self.text)))
        line = bisect.bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def offset(self, line: int, col: int) -> int:
        """Return the offset of a 1-based line and column, kept inside the text."""
        if line > len(self._starts):
            return len(self.text)
        return max(0, min(self._starts[max(line, 1) - 1] + col - 1, len(self.text)))

    def span(self, start: int, end: int) -> Span:
        """Return the span of two offsets, the end exclusive."""
        return Span(*self.position(start), *self.position(end))

    def slice(self, span: Span) -> str:
        """Return the raw text of a span."""
        return self.text[self.offset(span.line, span.col) : self.offset(span.end_line, span.end_col)]

    def line(self, number: int) -> str:
        """Return the text of a 1-based line without its line break; ``""`` for a line that is not there."""
        if not 1 <= number <= len(self._starts):
            return ""
        end = self._starts[number] if number < len(self._starts) else len(self.text)
        return self.text[self._starts[number - 1] : end].rstrip("\r\n")


def expressions(text: str) -> tuple[tuple[int, int], ...]:
    """Start and end offsets of every ``{{ }}`` and ``{% %}`` of a decoded text; an unclosed one ends with the
    text.
    """
    if text.startswith("{{") and text.find("}}") == len(text) - 2 and "{" not in text[2:]:
        return ((0, len(text)),)  # as most are: whatever is inside, it cannot end before
    found: list[tuple[int, int]] = []
    position = 0
    while opening := _COMMENT_OR_OPENING.search(text, position):
        position = opening.end()
        if not opening.group().startswith("{#"):
            position = _end(text, opening)
            found.append((opening.start(), position))
    return tuple(found)


def _end(text: str, opening: re.Match[str]) -> int:
    """Return the offset at which Jinja's lexer ends this expression, which is outside of strings and brackets."""
    until_end = _UNTIL_END[opening.group()]
    position, depth = opening.end(), 0
    while token := (_NESTED if depth else until_end).search(text, position):
        position, word = token.end(), token.group()
        if word in ("}}", "%}"):
            return position
        if word in "([{":
            depth += 1
        elif word in ")]}":
            depth -= 1
    return len(text)


def expression_spans(source: SourceFile, span: Span, text: str, style: ScalarStyle) -> tuple[Span, ...]:
    """Return the place of every template expression in the scalar at ``span`` whose decoded text is ``text``.

    The n-th span belongs to the n-th item of ``expressions(text)``. All of them are ``span`` when the raw
    text writes a brace by an escape.
    """
    places = expressions(text)
    before = _QUOTES.get(style)
    if before is not None and span.line == span.end_line and span.end_col - span.col == len(text) + 2 * before:
        # without line breaks and escapes, which would make the raw text longer, both texts are the same
        return tuple(_shifted(span, before + begin, before + end) for begin, end in places)
    start = source.offset(span.line, span.col)
    raw = source.text[start : source.offset(span.end_line, span.end_col)]
    skip = raw.find("\n") + 1 if style in ("literal", "folded") else 0  # the header line may have a comment
    openings = _pairs(_OPENING, text, raw, skip)
    closings = _pairs(_CLOSING, text, raw, skip)
    if openings is None or closings is None:
        return (span,) * len(places)
    end = {place + 2: at + 2 for place, at in closings.items()}
    return tuple(source.span(start + openings[a], start + end.get(b, len(raw))) for a, b in places)


def _shifted(span: Span, start: int, end: int) -> Span:
    """Return the span of a part of a scalar that is on one line and without escapes."""
    return Span(span.line, span.col + start, span.line, span.col + end)


def _pairs(marker: re.Pattern[str], text: str, raw: str, skip: int) -> dict[int, int] | None:
    """Offset in the text -> offset in the raw slice of every marker, or None when their numbers differ."""
    ours = [found.start() for found in marker.finditer(text)]
    theirs = [found.start() for found in marker.finditer(raw, skip)]
    return dict(zip(ours, theirs, strict=True)) if len(ours) == len(theirs) else None
