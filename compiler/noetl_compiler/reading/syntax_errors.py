"""Explain YAML syntax errors, and locate the mistake.

A YAML parser reports where it stopped. That is often far from the mistake: a missing quote is reported at the next
quote, a wrong indentation at the end of a list. Mistakes that can be found in the text are reported where they are;
other errors keep the parser's message, with a hint if it suggests one.
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
_BARE_TEMPLATE = re.compile(r"(?:^|:|-|,|\[)[ ]+(\{\{)")
_KEY = re.compile(r"[ ]*(?:-[ ]+)*(?P<key>[\w.$-]+|\"[^\"\n]*\"|'[^'\n]*'):(?:[ ]+(?P<value>[^\s#].*)|\s|$)")
_KEY_IN_QUOTES = re.compile(r"\n[ ]*(?:-[ ]+)*[\w.$-]+:(?:\s|$)")
_PLAIN_VALUE = re.compile(r"[^\"'\[{|>&*!]")
_INDENTATION_PROBLEMS = ("did not find expected '-' indicator", "did not find expected key", "expected <block end>")


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
    position = error.problem_mark or error.context_mark
    offset = position.index if position else 0
    problem = ": ".join(part for part in (error.context, error.problem) if part)
    if _TOO_DEEP in problem:
        return _error(source, offset, TOO_MANY_LEVELS, code=Code.BUDGET_EXCEEDED)
    opening_mark = error.context_mark if "end of stream" in problem else None
    if opening_mark is not None:
        offset = opening_mark.index
        problem = _OPEN_QUOTE if "quoted scalar" in problem else problem
    diagnostic = (
        _tab_error(source, offset, problem) or _bare_template_error(source, offset) or _open_quote_error(source, offset)
    )
    if diagnostic is None and opening_mark is None:
        diagnostic = _misplaced_key_error(source, offset, problem)
    hint = next((remedy for phrase, remedy in _REMEDIES if phrase in problem), "")
    return diagnostic or _error(source, offset, problem, hint)


def _tab_error(source: SourceFile, offset: int, problem: str) -> Diagnostic | None:
    if "tab character" not in problem and "cannot start any token" not in problem:
        return None
    line, _ = source.position(offset)
    start = source.offset(line, 1)
    indentation = _INDENTATION.match(source.text, start)
    tab = source.text.find("\t", start, indentation.end() if indentation else start)
    return None if tab < 0 else _error(source, tab, "a tab is used for indentation", "use spaces")


def _bare_template_error(source: SourceFile, offset: int) -> Diagnostic | None:
    """Report ``url: {{ a }}/x``, which YAML reads as a mapping followed by text."""
    line, column = source.position(offset)
    match = _BARE_TEMPLATE.search(source.line(line), 0, column + 1)
    if match is None or _is_quoted(source.line(line)[: match.start(1)]):
        return None
    start = source.offset(line, match.start(1) + 1)
    return _error(source, start, BARE_TEMPLATE, QUOTE_THE_TEMPLATE, code=Code.UNSUPPORTED_YAML)


def _is_quoted(text_before: str) -> bool:
    return text_before.count('"') % 2 == 1 or text_before.count("'") % 2 == 1


def _open_quote_error(source: SourceFile, offset: int) -> Diagnostic | None:
    """Report a quote that is closed by the opening quote of a later string: there are keys between them."""
    line, _ = source.position(offset)
    for start, end in _quoted_scalars(source):
        if end <= offset and source.position(end)[0] == line and _KEY_IN_QUOTES.search(source.text, start, end):
            related = (Related(source.span(end - 1, end), "the next quote closes it here"),)
            return _error(source, start, _OPEN_QUOTE, "close it", related)
    return None


def _quoted_scalars(source: SourceFile) -> Iterator[tuple[int, int]]:
    """Yield start and end of every quoted scalar up to the error."""
    scanner: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(source.text)
    try:
        while token := scanner.get_token():
            if isinstance(token, yaml.ScalarToken) and token.style in ("'", '"'):
                yield token.start_mark.index, token.end_mark.index
    except yaml.YAMLError:
        return
    finally:
        scanner.dispose()


def _misplaced_key_error(source: SourceFile, offset: int, problem: str) -> Diagnostic | None:
    """Report a key whose indentation differs from that of the keys above it."""
    line, _ = source.position(offset)
    key = _key_of_line(source, line)
    if key is None:
        return None
    if "mapping values are not allowed" in problem:
        return _key_below_value_error(source, key, offset)
    if not any(phrase in problem for phrase in _INDENTATION_PROBLEMS) or offset > source.offset(line, key.column + 1):
        return None
    keys_above = _enclosing_keys(source, line, key.column)
    deeper = [key_above for key_above in keys_above if key_above.column > key.column]
    if not deeper or any(key_above.column == key.column for key_above in keys_above):
        return None
    candidates = [_location(deeper[0])]
    if "'-'" not in problem:  # inside a list, only its items or the keys of an item can be meant
        candidates += [_location(key_above) for key_above in keys_above if key_above.column < key.column][-1:]
    message = f'"{key.text}" does not match the indentation of any block around it'
    return _error(
        source, source.offset(line, key.column + 1), message, f"indent it like {' or like '.join(candidates)}"
    )


def _key_below_value_error(source: SourceFile, key: _Key, offset: int) -> Diagnostic | None:
    """Report a key below one with a value, such as ``method: GET`` below ``tool: http``: YAML continues the value."""
    key_above = next(_keys_of_lines_above(source, key.line), None)
    is_below = key_above is not None and key_above.column < key.column and _PLAIN_VALUE.match(key_above.value)
    if key_above is None or not is_below or source.offset(key.line, key.column + 1 + len(key.text)) < offset - 2:
        return None
    message = f'"{key.text}" is indented below "{key_above.text}", which already has a value'
    hint = f"indent it like {_location(key_above)}, or remove the value; {_NEEDS_QUOTES}"
    return _error(source, source.offset(key.line, key.column + 1), message, hint)


def _location(key: _Key) -> str:
    return f'"{key.text}" in line {key.line}'


def _enclosing_keys(source: SourceFile, line: int, column: int) -> list[_Key]:
    """Return the last key of each block above a line, from the outermost to the innermost, up to the first block that
    is not indented deeper than ``column``.
    """
    keys: list[_Key] = []
    for key in _keys_of_lines_above(source, line):
        if not keys or key.column < keys[-1].column:
            keys.append(key)
        if key.column <= column:
            break
    return keys[::-1]


def _keys_of_lines_above(source: SourceFile, line: int) -> Iterator[_Key]:
    for number in range(line - 1, 0, -1):
        if key := _key_of_line(source, number):
            yield key


def _key_of_line(source: SourceFile, line: int) -> _Key | None:
    match = _KEY.match(source.line(line))
    return _Key(line, match.start("key"), match["key"].strip("'\""), match["value"] or "") if match else None


def _error(
    source: SourceFile,
    offset: int,
    message: str,
    hint: str = "",
    related: tuple[Related, ...] = (),
    code: Code = Code.YAML_SYNTAX,
) -> Diagnostic:
    return Diagnostic(code, Severity.ERROR, source.span(offset, offset + 1), message, hint, related, source.file)
