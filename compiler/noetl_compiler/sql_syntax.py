"""Check the SQL of a task: whether it parses, and which templates are inside quotes.

sqlglot parses it, which differs from the databases: it accepts unknown statements as commands, and the database may
accept what it rejects. Templates are parsed as names. Only an error before the first template of a statement is
certain; a later one may be caused by the name.
"""

from __future__ import annotations

import logging
import re
from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from noetl_compiler.source import expression_ranges

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

__all__ = ["QuotedTemplate", "SqlSyntaxError", "find_syntax_error", "quoted_templates"]

_MAX_CHARS = 50_000
"""Longer SQL is not checked."""

_BLOCK = re.compile(r"\{[%#]")
_ON_CONFLICT = re.compile(r"\bON\s+CONFLICT\b[^;]*", re.IGNORECASE)
_FULLY_SUPPORTED = re.compile(
    r"[\s(]*(?:select|insert|update|delete|with|values|create\s+(?:temp\w*\s+)?table|"
    r"s\w{2,5}t|ins\w{1,4}t?|upd\w{1,4}|del\w{1,4})\b",
    re.IGNORECASE,
)
"""Statements that sqlglot supports fully, and misspelt ones. Others, such as CREATE FUNCTION, it supports in part."""

_STATEMENTS_WITH_PARAMETERS = frozenset({"SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "WITH", "VALUES"})
_LITERAL_ONLY = frozenset({"INTERVAL", "DATE", "TIME", "TIMESTAMP", "TIMESTAMPTZ"})
"""Words that must be followed by a literal string, not by a parameter."""

_Range = tuple[int, int]


class SqlSyntaxError(NamedTuple):
    """The range at which the parser stopped; empty at the end for an unclosed quote or comment."""

    start: int
    end: int


class QuotedTemplate(NamedTuple):
    """A template in quotes. ``text`` is the text between the quotes; ``is_alone`` if there is only one statement."""

    start: int
    end: int
    text: str
    is_alone: bool


_SNOWFLAKE_PARAMETER = "%s"
"""A parameter as the driver of Snowflake writes it."""


def find_syntax_error(sql: str, dialect: str) -> SqlSyntaxError | None:
    """Return the first certain syntax error, if any."""
    if len(sql) > _MAX_CHARS or _BLOCK.search(sql):
        return None
    templates = expression_ranges(sql)
    text = _replace_templates(sql, templates)
    if dialect == "snowflake":
        text = text.replace(_SNOWFLAKE_PARAMETER, ":s")  # sqlglot only supports the parameters of other drivers
    tokens = _tokenize(text, dialect)
    if tokens is None:
        return None if templates else SqlSyntaxError(len(sql), len(sql))
    error = _parse_error(text, tokens, dialect)
    if error is None or (_ON_CONFLICT.search(text) and _parses(_ON_CONFLICT.sub(_as_spaces, text), dialect)):
        return None  # sqlglot parses ON CONFLICT after a join as the condition of the join
    start, end = max(((start, end) for start, end in _statement_ranges(tokens) if start <= error.start), default=(0, 0))
    if not _FULLY_SUPPORTED.match(text, start, end) or _is_unreliable(text, error):
        return None
    strings = _replaceable_strings(tokens)
    earlier_templates = [template for template in templates if start <= template[0] < error.end]
    return error if all(_enclosing(template, strings) for template in earlier_templates) else None


def _is_unreliable(text: str, error: SqlSyntaxError) -> bool:
    """Whether sqlglot may be wrong. An error at ``(`` may be caused by what follows, and a string after a word may have
    a type that sqlglot does not know: ``cidr '10.0.0.0/8'``.
    """
    error_text = text[error.start : error.end]
    return error_text == "(" or (error_text.startswith("'") and text[: error.start].rstrip()[-1:].isalnum())


def quoted_templates(sql: str, dialect: str) -> tuple[QuotedTemplate, ...]:
    """Return the templates inside quotes, where a parameter could replace the quoted text."""
    templates = expression_ranges(sql)
    tokens = _tokenize(_replace_templates(sql, templates), dialect) if templates and len(sql) <= _MAX_CHARS else None
    if not tokens or "'" not in sql:
        return ()
    statements = tuple(_statement_ranges(tokens))
    statements_with_parameters = [
        statement for statement in statements if _first_word(sql, statement) in _STATEMENTS_WITH_PARAMETERS
    ]
    strings = _replaceable_strings(tokens)
    return tuple(
        QuotedTemplate(*template, sql[string[0] + 1 : string[1] - 1].replace("''", "'"), len(statements) == 1)
        for template in templates
        if (string := _enclosing(template, strings)) and _enclosing(template, statements_with_parameters)
    )


def _replace_templates(sql: str, ranges: Sequence[_Range]) -> str:
    """Replace every template by a name of the same length, so that offsets stay."""
    parts: list[str] = []
    position = 0
    for start, end in ranges:
        parts += [sql[position:start], "x" * (end - start)]
        position = end
    return "".join((*parts, sql[position:]))


def _as_spaces(match: re.Match[str]) -> str:
    return " " * len(match.group())


def _tokenize(text: str, dialect: str) -> list[Token] | None:
    """Return the tokens; None if a quote or a comment is not closed."""
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.errors import TokenError

    try:
        return Dialect.get_or_raise(dialect).tokenize(text)
    except TokenError:
        return None


def _parses(text: str, dialect: str) -> bool:
    return _parse_error(text, _tokenize(text, dialect) or [], dialect) is None


def _parse_error(text: str, tokens: list[Token], dialect: str) -> SqlSyntaxError | None:
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.errors import ErrorLevel, ParseError

    parser = Dialect.get_or_raise(dialect).parser(error_level=ErrorLevel.RAISE, error_message_context=len(text))
    try:
        with _disable_log():
            parser.parse(tokens, text)
    except ParseError as error:
        details = error.errors[0] if error.errors else {}
        start = len(details.get("start_context") or "")  # the context is the whole text before the error
        return SqlSyntaxError(start, start + len(details.get("highlight") or ""))
    except RecursionError:
        return None
    return None


@contextmanager
def _disable_log() -> Generator[None]:
    """Disable the log of sqlglot, which warns of statements that it parses as commands."""
    logger = logging.getLogger("sqlglot")
    was_disabled, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = was_disabled


def _statement_ranges(tokens: list[Token]) -> Iterator[_Range]:
    """Yield start and end of each statement, without the semicolon."""
    ends = [index for index, token in enumerate(tokens) if token.token_type.name == "SEMICOLON"]
    for before, after in pairwise((-1, *ends, len(tokens))):
        if after - before > 1:
            yield tokens[before + 1].start, tokens[after - 1].end + 1


def _first_word(sql: str, statement: _Range) -> str:
    match = re.match(r"[\s(]*(\w+)", sql[statement[0] : statement[1]])
    return match[1].upper() if match else ""


def _replaceable_strings(tokens: list[Token]) -> list[_Range]:
    """Return the ranges of the strings that a parameter could replace."""
    previous_words = ["", *(token.text.upper() for token in tokens)]
    return [
        (token.start, token.end + 1)
        for token, previous_word in zip(tokens, previous_words, strict=False)
        if token.token_type.name == "STRING" and previous_word not in _LITERAL_ONLY
    ]


def _enclosing(inner: _Range, ranges: Sequence[_Range]) -> _Range | None:
    """Return the one of the sorted ranges that contains ``inner``; None if there is none."""
    index = bisect_right(ranges, inner) - 1
    return ranges[index] if index >= 0 and inner[1] <= ranges[index][1] else None
