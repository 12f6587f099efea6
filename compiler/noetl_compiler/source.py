"""The text of a playbook, and the conversion of its offsets to lines and columns.

Offsets count characters of the text; lines and columns are 1-based, and a column counts characters. Only ``\\n``,
``\\r\\n`` and ``\\r`` end a line, as in editors, although YAML 1.1 has other line breaks.

Positions inside a scalar: offsets in the decoded value of a YAML scalar differ from those in its raw text, because of
folding, escapes, doubled quotes and indentation. These do not affect the delimiters of a template, so the n-th ``{{``
of the value is the n-th ``{{`` of the raw text, and likewise for ``}}``. If their numbers differ (an escape such as
``\\x7b`` wrote a brace), the span of the whole scalar is used.
"""

from __future__ import annotations

import bisect
import re
from array import array
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal, TypeAlias

from noetl_compiler.graph import Span

__all__ = ["ScalarStyle", "SourceFile", "Span", "expression_ranges", "expression_spans", "lone_expression"]

ScalarStyle: TypeAlias = Literal["plain", "single", "double", "literal", "folded"]

_BYTE_ORDER_MARK = "\ufeff"
_LINE_BREAK = re.compile(r"\r\n|\r|\n")
_LINE_FEED = re.compile(r"\n")
"""The line break of a text without ``\\r``, found much faster."""
_OPENING = re.compile(r"\{\{|\{%")
_CLOSING = re.compile(r"\}\}|%\}")
_COMMENT_OR_OPENING = re.compile(r"\{#.*?(?:#\}|\Z)|\{\{|\{%", re.DOTALL)
# an unclosed string extends to the end; quantifiers are possessive, so that it is scanned once
_STRING = r"'(?:\\.|[^'\\])*+\\?'?|\"(?:\\.|[^\"\\])*+\\?\"?"
_END_PATTERNS = {
    "{{": re.compile(rf"{_STRING}|\}}\}}|[(\[{{]", re.DOTALL),
    "{%": re.compile(rf"{_STRING}|%\}}|[(\[{{]", re.DOTALL),
}
_QUOTES: dict[ScalarStyle, int] = {"plain": 0, "single": 1, "double": 1}
_LONE_EXPRESSION = re.compile(r"\{\{[-+]?\s*(.*?)\s*-?\}\}", re.DOTALL)
"""A sign next to the braces controls white space; any other sign belongs to the expression."""
_NESTED = re.compile(rf"{_STRING}|[()\[\]{{}}]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A text with its name. ``file`` is the name that the user gave, and is part of every diagnostic. A byte order mark
    is removed, as in editors.
    """

    file: str
    text: str
    _line_starts: array[int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.text.startswith(_BYTE_ORDER_MARK):
            object.__setattr__(self, "text", self.text[1:])
        breaks = (_LINE_BREAK if "\r" in self.text else _LINE_FEED).finditer(self.text)
        object.__setattr__(self, "_line_starts", array("L", chain((0,), (line_break.end() for line_break in breaks))))

    def position(self, offset: int) -> tuple[int, int]:
        """Return the 1-based line and column of an offset; an offset beyond the text is its end."""
        offset = max(0, min(offset, len(self.text)))
        line = bisect.bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def offset(self, line: int, col: int) -> int:
        """Return the offset of a 1-based line and column, clamped to the text."""
        if line > len(self._line_starts):
            return len(self.text)
        return max(0, min(self._line_starts[max(line, 1) - 1] + col - 1, len(self.text)))

    def span(self, start: int, end: int) -> Span:
        """Return the span of two offsets, the end exclusive."""
        return Span(*self.position(start), *self.position(end))

    def slice(self, span: Span) -> str:
        """Return the raw text of a span."""
        return self.text[self.offset(span.line, span.col) : self.offset(span.end_line, span.end_col)]

    def line(self, number: int) -> str:
        """Return the text of a 1-based line without its line break; ``""`` if there is no such line."""
        if not 1 <= number <= len(self._line_starts):
            return ""
        end = self._line_starts[number] if number < len(self._line_starts) else len(self.text)
        return self.text[self._line_starts[number - 1] : end].rstrip("\r\n")


def expression_ranges(text: str) -> tuple[tuple[int, int], ...]:
    """Return start and end offset of every ``{{ }}`` and ``{% %}`` of a decoded text. An unclosed one extends to the
    end of the text.
    """
    if text.startswith("{{") and text.find("}}") == len(text) - 2 and "{" not in text[2:]:
        return ((0, len(text)),)  # the common case: a lone expression without inner braces
    ranges: list[tuple[int, int]] = []
    position = 0
    while opening := _COMMENT_OR_OPENING.search(text, position):
        position = opening.end()
        if not opening.group().startswith("{#"):
            position = _expression_end(text, opening)
            ranges.append((opening.start(), position))
    return tuple(ranges)


def lone_expression(text: str) -> str | None:
    """Return the expression of a text that is only ``{{ expression }}``, without braces; None for any other text."""
    stripped_text = text.strip()
    match = _LONE_EXPRESSION.fullmatch(stripped_text)
    is_lone = match is not None and expression_ranges(stripped_text) == ((0, len(stripped_text)),)
    return match[1] if match is not None and is_lone else None


def _expression_end(text: str, opening: re.Match[str]) -> int:
    """Return the offset at which Jinja's lexer ends this expression: at a delimiter outside of strings and brackets."""
    until_end = _END_PATTERNS[opening.group()]
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
    """Return the span of every template expression in the scalar at ``span`` whose decoded text is ``text``.

    The n-th span belongs to the n-th item of ``expression_ranges(text)``. All are ``span`` if the raw text writes a
    brace by an escape.
    """
    ranges = expression_ranges(text)
    quote_width = _QUOTES.get(style)
    if (
        quote_width is not None
        and span.line == span.end_line
        and span.end_col - span.col == len(text) + 2 * quote_width
    ):
        # without line breaks and escapes, which would make the raw text longer, both texts are the same
        return tuple(_span_within_line(span, quote_width + begin, quote_width + end) for begin, end in ranges)
    start = source.offset(span.line, span.col)
    raw = source.text[start : source.offset(span.end_line, span.end_col)]
    skip = raw.find("\n") + 1 if style in ("literal", "folded") else 0  # the header line may have a comment
    openings = _raw_offsets(_OPENING, text, raw, skip)
    closings = _raw_offsets(_CLOSING, text, raw, skip)
    if openings is None or closings is None:
        return (span,) * len(ranges)
    end_offsets = {offset + 2: raw_offset + 2 for offset, raw_offset in closings.items()}
    return tuple(source.span(start + openings[begin], start + end_offsets.get(end, len(raw))) for begin, end in ranges)


def _span_within_line(span: Span, start: int, end: int) -> Span:
    """Return the span of a part of a scalar on one line without escapes."""
    return Span(span.line, span.col + start, span.line, span.col + end)


def _raw_offsets(marker: re.Pattern[str], text: str, raw: str, skip: int) -> dict[int, int] | None:
    """Return offset in the decoded text -> offset in the raw text of every marker; None if their numbers differ."""
    offsets = [match.start() for match in marker.finditer(text)]
    raw_offsets = [match.start() for match in marker.finditer(raw, skip)]
    return dict(zip(offsets, raw_offsets, strict=True)) if len(offsets) == len(raw_offsets) else None
