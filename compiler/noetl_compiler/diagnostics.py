"""Diagnostics of a playbook, as frozen values and as text.

A diagnostic is never raised. Every pass returns its result and all its diagnostics; the CLI decides what to do with
them. A message describes the problem in lower case, without a full stop, and with the user's text in double quotes; the
hint is the remedy.
"""

from __future__ import annotations

import bisect
import difflib
import unicodedata
from collections.abc import Collection, Iterable
from enum import Enum
from functools import lru_cache

import msgspec

from noetl_compiler.codes import Code
from noetl_compiler.printable import printable_line
from noetl_compiler.source import SourceFile, Span

__all__ = [
    "Diagnostic",
    "Related",
    "Severity",
    "columns",
    "did_you_mean",
    "did_you_mean_or_list",
    "excerpt",
    "most_similar",
    "one_line",
    "render",
    "sort_and_dedupe",
]

_SNIPPET_WIDTH = 160
_MAX_NAME_LENGTH = 100
_MAX_COMPARED_NAMES = 100
_ZERO_WIDTH = frozenset({"Mn", "Me", "Cf"})
_MAX_LISTED_NAMES = 8


class Severity(Enum):
    """Errors prevent a graph, warnings do not."""

    ERROR = "error"
    WARNING = "warning"


class Related(msgspec.Struct, frozen=True):
    """A related span with its message; ``file`` is empty if it is in the same file."""

    span: Span
    message: str
    file: str = ""


class Diagnostic(msgspec.Struct, frozen=True):
    """One error or warning. ``file`` is the path that the user gave. ``str()`` of it is :func:`one_line`."""

    code: Code
    severity: Severity
    span: Span
    message: str
    hint: str = ""
    related: tuple[Related, ...] = ()
    file: str = ""

    def __str__(self) -> str:
        return one_line(self)


def sort_and_dedupe(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Return the diagnostics sorted by file, span, code and text, without duplicates."""
    return tuple(sorted(set(diagnostics), key=_reading_order))


def _reading_order(diagnostic: Diagnostic) -> tuple[str, Span, str, str, str, tuple[tuple[str, Span, str], ...]]:
    related = tuple((other.file, other.span, other.message) for other in diagnostic.related)
    return diagnostic.file, diagnostic.span, diagnostic.code.value, diagnostic.message, diagnostic.hint, related


def one_line(diagnostic: Diagnostic) -> str:
    """Return ``playbook.yaml:12:9: error[NT203]: message``, without the hint."""
    position = f"{diagnostic.file}:{diagnostic.span.line}:{diagnostic.span.col}"
    return printable_line(f"{position}: {diagnostic.severity.value}[{diagnostic.code.value}]: {diagnostic.message}")


def render(diagnostic: Diagnostic, source: SourceFile, hidden_spans: Collection[Span] = ()) -> str:
    """Return the diagnostic as text: one line, the source line with a caret, the related spans and the hint.

    ``hidden_spans`` are the spans of credentials, which are shown as asterisks.
    """
    if diagnostic.code is Code.CREDENTIAL_IN_TEXT:
        hidden_spans = (*hidden_spans, diagnostic.span)
    lines = [one_line(diagnostic), *excerpt(diagnostic.span, source, hidden_spans)]
    for other in diagnostic.related:
        file = other.file or source.file
        lines.append(printable_line(f"{file}:{other.span.line}:{other.span.col}: note: {other.message}"))
        lines += [] if other.file else excerpt(other.span, source, hidden_spans)
    if diagnostic.hint:
        lines.append(f"help: {printable_line(diagnostic.hint)}")
    return "\n".join(lines)


def excerpt(span: Span, source: SourceFile, hidden_spans: Collection[Span]) -> list[str]:
    """Return the first line of the span with a caret below it, truncated around it; empty without source text."""
    if not source.text:
        return []
    text = _mask(source.line(span.line), span.line, hidden_spans)
    last = span.end_col - 1 if span.end_line == span.line else len(text)
    first = min(span.col - 1, len(text))
    window = max(0, first - _SNIPPET_WIDTH // 2)
    visible = printable_line(text[window : window + _SNIPPET_WIDTH])
    before = printable_line(text[window:first])
    underlined_text = printable_line(text[first : max(first + 1, min(last, window + _SNIPPET_WIDTH))])
    number = str(span.line)
    margin = " " * len(number)
    caret = "^" + "~" * (columns(underlined_text) - 1)
    return [f"{margin} |", f"{number} | {visible}", f"{margin} | {' ' * columns(before)}{caret}"]


def _mask(text: str, line: int, hidden_spans: Collection[Span]) -> str:
    for span in hidden_spans:
        if span.line <= line <= span.end_line:
            first = span.col - 1 if span.line == line else 0
            last = span.end_col - 1 if span.end_line == line else len(text)
            text = text[:first] + "*" * (last - first) + text[last:]
    return text


def columns(text: str) -> int:
    """Return the width of the text in a terminal: wide characters take two columns, combining characters none."""
    return sum(
        0 if unicodedata.category(char) in _ZERO_WIDTH else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def did_you_mean(name: str, candidates: Iterable[str], cutoff: float = 0.65) -> str:
    """Return the hint ``did you mean "fetch"?`` with the most similar candidate; ``""`` if none is similar enough.

    ``cutoff`` is the minimal similarity, from 0 for any to 1 for the same.
    """
    similar = most_similar(name, candidates, cutoff)
    return f'did you mean "{similar}"?' if similar else ""


def template_name_hint(name: str, candidates: Iterable[str], container: str = "results", cutoff: float = 0.65) -> str:
    """Return the same hint for a name in a template. If the candidate is not an identifier, such as a step with a
    hyphen, the hint shows how to read it from ``container``: ``write results["load-rows"] for "load-rows"``.
    """
    similar = most_similar(name, candidates, cutoff)
    if not similar or similar.isidentifier():
        return f'did you mean "{similar}"?' if similar else ""
    return f'write {container}["{similar}"] for "{similar}"'


def most_similar(name: str, candidates: Iterable[str], cutoff: float = 0.65) -> str:
    """Return the candidate that is most similar to ``name``; "" if none is similar enough. As comparing is slow, only
    the alphabetical neighbours of ``name`` are compared if there are many candidates.
    """
    if len(name) > _MAX_NAME_LENGTH:
        return ""
    sorted_names = _sort_names(frozenset(candidates))
    position, half = bisect.bisect(sorted_names, name), _MAX_COMPARED_NAMES // 2
    compared_names = (
        sorted_names[max(0, position - half) : position + half]
        if len(sorted_names) > _MAX_COMPARED_NAMES
        else sorted_names
    )
    return next(iter(difflib.get_close_matches(name, compared_names, n=1, cutoff=cutoff)), "")


@lru_cache(maxsize=8)
def _sort_names(names: frozenset[str]) -> tuple[str, ...]:
    return tuple(sorted(name for name in names if len(name) <= _MAX_NAME_LENGTH))


def did_you_mean_or_list(name: str, candidates: Iterable[str], subject: str) -> str:
    """Return the hint ``did you mean "fetch"?``; if no candidate is similar, list them if they are few: ``steps are
    "a" and "b"``, where ``subject`` is ``steps are``.
    """
    names = sorted(set(candidates))
    if (hint := did_you_mean(name, names)) or not 0 < len(names) <= _MAX_LISTED_NAMES:
        return hint
    *others, last = (f'"{candidate}"' for candidate in names)
    return f"{subject} {', '.join(others)} and {last}" if others else f"the only one is {last}"
