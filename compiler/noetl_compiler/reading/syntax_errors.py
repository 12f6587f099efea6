"""What is wrong with a text that is not YAML, and where the mistake was made.

A YAML parser reports where it gave up. That is often far from the mistake: a missing quote shows up
at the next quote, a line that is indented too little at the end of a list. What the text itself shows is
reported at its own place; the rest keeps the parser's words, with a remedy where they suggest one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Diagnostic, Related, Severity
from noetl_compiler.reading.budget import TOO_MANY_LEVELS
from noetl_compiler.source import SourceFile

__all__ = ["BARE_TEMPLATE", "QUOTE_THE_TEMPLATE", "syntax_error"]

BARE_TEMPLATE = "a template is not quoted"
QUOTE_THE_TEMPLATE = 'quote the template: "{{ ... }}"'

_TOO_DEEP = "exceeded maximum nesting depth"
"""The message of libyaml from 0.2.6 on, whose scanner counts brackets before the composer does."""

_OPEN_QUOTE = "this quote is never closed"
_NEEDS_QUOTES = 'text that contains ": " needs quotes'
_REMEDIES = (
    ("mapping values are not allowed", _NEEDS_QUOTES),
    ("cannot start any token", "quote text that begins with @, ` or %"),
    ("this quote", "close it"),
    ("end of stream", "close the bracket that opens here"),
    ("did not find expected key", "check the indentation, and quotes inside quotes"),
    ("expected ',' or", "close the bracket, and quote text with commas or braces"),
    ("unknown escape character", "in double quotes a backslash begins an escape: write \\\\, or use single quotes"),
    ("could not find expected ':'", "indent the text of a block (after | or >) more than its key"),
    ("undefined tag handle", "quote text that begins with !"),
)
_INDENTATION = re.compile(r"[ \t-]*")
_BARE = re.compile(r"(?:^|:|-|,|\[)[ ]+(\{\{)")
_KEY = re.compile(r"[ ]*(?:-[ ]+)*(?P<key>[\w.$-]+|\"[^\"\n]*\"|'[^'\n]*'):(?:[ ]+(?P<value>[^\s#].*)|\s|$)")
_KEY_IN_TEXT = re.compile(r"\n[ ]*(?:-[ ]+)*[\w.$-]+:(?:\s|$)")
_PLAIN = re.compile(r"[^\"'\[{|>&*!]")
_MISPLACED = ("did not find expected '-' indicator", "did not find expected key", "expected <block end>")


class _Key(NamedTuple):
    """A key at the beginning of a line. ``column`` is that of its first character, 0-based."""

    line: int
    column: int
    text: str
    value: str


def syntax_error(source: SourceFile, error: yaml.YAMLError) -> Diagnostic:
    """Return a diagnostic with the likely cause of a parser error."""
    if not isinstance(error, yaml.MarkedYAMLError):
        return _error(source, 0, str(error).splitlines()[0])
    mark = error.problem_mark or error.context_mark
    offset = mark.index if mark else 0
    words = ": ".join(part for part in (error.context, error.problem) if part)
    if _TOO_DEEP in words:
        return _error(source, offset, TOO_MANY_LEVELS, code=Code.BUDGET_EXCEEDED)
    opened = error.context_mark if "end of stream" in words else None
    if opened is not None:
        offset = opened.index
        words = _OPEN_QUOTE if "quoted scalar" in words else words
    explained = _tab(source, offset, words) or _bare_template(source, offset) or _open_quote(source, offset)
    if explained is None and opened is None:
        explained = _misplaced_key(source, offset, words)
    hint = next((remedy for words_of, remedy in _REMEDIES if words_of in words), "")
    return explained or _error(source, offset, words, hint)


def _tab(source: SourceFile, offset: int, words: str) -> Diagnostic | None:
    if "tab character" not in words and "cannot start any token" not in words:
        return None
    line, _ = source.position(offset)
    start = source.offset(line, 1)
    found = _INDENTATION.match(source.text, start)
    at = source.text.find("\t", start, found.end() if found else start)
    return None if at < 0 else _error(source, at, "a tab is used for indentation", "use spaces")


def _bare_template(source: SourceFile, offset: int) -> Diagnostic | None:
    """``url: {{ a }}/x``: a mapping for YAML, with something behind it."""
    line, column = source.position(offset)
    found = _BARE.search(source.line(line), 0, column + 1)
    if found is None or _is_quoted(source.line(line)[: found.start(1)]):
        return None
    at = source.offset(line, found.start(1) + 1)
    return _error(source, at, BARE_TEMPLATE, QUOTE_THE_TEMPLATE, code=Code.UNSUPPORTED_YAML)


def _is_quoted(before: str) -> bool:
    return before.count('"') % 2 == 1 or before.count("'") % 2 == 1


def _open_quote(source: SourceFile, offset: int) -> Diagnostic | None:
    """A quote that is closed by the opening one of a later text: the text between them has keys in it."""
    line, _ = source.position(offset)
    for start, end in _quoted(source):
        if end <= offset and source.position(end)[0] == line and _KEY_IN_TEXT.search(source.text, start, end):
            related = (Related(source.span(end - 1, end), "the next quote closes it here"),)
            return _error(source, start, _OPEN_QUOTE, "close it", related)
    return None


def _quoted(source: SourceFile) -> Iterator[tuple[int, int]]:
    """Start and end of every quoted text, as far as the scanner comes."""
    scanner: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(source.text)
    try:
        while token := scanner.get_token():
            if isinstance(token, yaml.ScalarToken) and token.style in ("'", '"'):
                yield token.start_mark.index, token.end_mark.index
    except yaml.YAMLError:
        return
    finally:
        scanner.dispose()


def _misplaced_key(source: SourceFile, offset: int, words: str) -> Diagnostic | None:
    """A key that is indented unlike the ones above it."""
    line, _ = source.position(offset)
    key = _key(source, line)
    if key is None:
        return None
    if "mapping values are not allowed" in words:
        return _below_a_value(source, key, offset)
    if not any(one in words for one in _MISPLACED) or offset > source.offset(line, key.column + 1):
        return None
    above = _keys_above(source, line, key.column)
    deeper = [one for one in above if one.column > key.column]
    if not deeper or any(one.column == key.column for one in above):
        return None
    like = [_place(deeper[0])]
    if "'-'" not in words:  # of a list's end nothing but an item or one of the list's own keys can be meant
        like += [_place(one) for one in above if one.column < key.column][-1:]
    message = f'"{key.text}" does not match the indentation of any block around it'
    return _error(source, source.offset(line, key.column + 1), message, f"indent it like {' or like '.join(like)}")


def _below_a_value(source: SourceFile, key: _Key, offset: int) -> Diagnostic | None:
    """``tool: http`` with ``method: GET`` below it: the value continues in the next line."""
    above = next(_lines_above(source, key.line), None)
    is_below = above is not None and above.column < key.column and _PLAIN.match(above.value)
    if above is None or not is_below or source.offset(key.line, key.column + 1 + len(key.text)) < offset - 2:
        return None
    message = f'"{key.text}" is indented below "{above.text}", which already has a value'
    hint = f"indent it like {_place(above)}, or remove the value; {_NEEDS_QUOTES}"
    return _error(source, source.offset(key.line, key.column + 1), message, hint)


def _place(key: _Key) -> str:
    return f'"{key.text}" in line {key.line}'


def _keys_above(source: SourceFile, line: int, column: int) -> list[_Key]:
    """Return the last key of every block around a line, from the outermost in, down to the first that is not deeper."""
    found: list[_Key] = []
    for key in _lines_above(source, line):
        if not found or key.column < found[-1].column:
            found.append(key)
        if key.column <= column:
            break
    return found[::-1]


def _lines_above(source: SourceFile, line: int) -> Iterator[_Key]:
    for number in range(line - 1, 0, -1):
        if key := _key(source, number):
            yield key


def _key(source: SourceFile, line: int) -> _Key | None:
    found = _KEY.match(source.line(line))
    return _Key(line, found.start("key"), found["key"].strip("'\""), found["value"] or "") if found else None


def _error(
    source: SourceFile,
    offset: int,
    message: str,
    hint: str = "",
    related: tuple[Related, ...] = (),
    code: Code = Code.YAML_SYNTAX,
) -> Diagnostic:
    return Diagnostic(code, Severity.ERROR, source.span(offset, offset + 1), message, hint, related, source.file)
