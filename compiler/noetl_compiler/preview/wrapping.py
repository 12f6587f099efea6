"""Wrap text at spaces, but not inside ``{{ }}`` or quotes that fit on a line. Widths are in terminal columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from noetl_compiler.diagnostics import columns

__all__ = ["wrap", "wrap_at_spaces"]

_QUOTED = r"(?<!\w)'[^']*'(?!\w)|(?<!\w)\"[^\"]*\"(?!\w)"
_UNIT = re.compile(rf" *(?:\{{\{{.*?\}}\}}|{_QUOTED}|[^ ])+")
_PART = re.compile(rf" *(?:\{{\{{.*?\}}\}}|{_QUOTED}|(?:(?!\{{\{{)[^ ])+|\{{\{{)")
_WORD = re.compile(r" *[^ ]+")
_TOKEN = re.compile(rf"{_QUOTED}|\w+|[^\w\s]| +")


def wrap_at_spaces(text: str, width: int) -> list[str]:
    """Wrap at spaces; words longer than ``width`` stay whole."""
    return _fill_lines(_units(text, width), width)


def wrap(text: str, width: int) -> list[str]:
    """Wrap to at most ``width`` columns: long words are split between tokens, long tokens anywhere."""
    return [part for line in wrap_at_spaces(text, width) for part in _split(line, width)]


def _units(text: str, width: int) -> Iterator[str]:
    """Split into the largest units that fit on a line: words with templates and quotes, those alone, or words."""
    for unit in _UNIT.findall(text):
        for part in [unit] if columns(unit.lstrip()) <= width else _PART.findall(unit):
            yield from [part] if columns(part.lstrip()) <= width else _WORD.findall(part)


def _split(line: str, width: int) -> list[str]:
    if columns(line) <= width:
        return [line]
    tokens = (part for token in _TOKEN.findall(line) for part in _pieces(token, width))
    return _fill_lines(tokens, width)


def _pieces(token: str, width: int) -> Iterator[str]:
    """Split a token into parts that fit; a wide character has two columns."""
    size = width if columns(token) == len(token) else max(1, width // 2)
    yield from (token[start : start + size] for start in range(0, len(token), size))


def _fill_lines(parts: Iterable[str], width: int) -> list[str]:
    lines, line_width = [""], 0
    for part in parts:
        if lines[-1] and line_width + columns(part) > width:
            lines.append("")
            line_width, part = 0, part.lstrip()
        lines[-1] += part
        line_width += columns(part)
    return lines
