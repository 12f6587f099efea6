"""Checks of the SQL of a task: whether it parses, and which templates are inside quotes.

sqlglot reads it, which is none of the databases: what it does not know it takes for a command, and what it refuses may
still run. Templates are read as names. Only an error before the first template of a statement is certain; what
follows one may be a mistake only because of the name in its place.
"""

from __future__ import annotations

import logging
import re
from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from noetl_compiler.source import expressions

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

__all__ = ["QuotedTemplate", "SqlProblem", "quoted_templates", "syntax_problem"]

_LONGEST = 50_000
"""Characters of SQL that is looked at; longer SQL is left to the run."""

_BLOCK = re.compile(r"\{[%#]")
_ON_CONFLICT = re.compile(r"\bON\s+CONFLICT\b[^;]*", re.IGNORECASE)
_WELL_KNOWN = re.compile(
    r"[\s(]*(?:select|insert|update|delete|with|values|create\s+(?:temp\w*\s+)?table|"
    r"s\w{2,5}t|ins\w{1,4}t?|upd\w{1,4}|del\w{1,4})\b",
    re.IGNORECASE,
)
"""Statements whose whole grammar sqlglot knows, and misspelt ones. It knows part of most others (CREATE FUNCTION)."""

_TAKE_PARAMETERS = frozenset({"SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "WITH", "VALUES"})
_LITERAL_ONLY = frozenset({"INTERVAL", "DATE", "TIME", "TIMESTAMP", "TIMESTAMPTZ"})
"""Words that require a literal string: no parameter is allowed there."""

_Place = tuple[int, int]


class SqlProblem(NamedTuple):
    """Where a parser stopped; empty for a quote or a comment that is never closed."""

    start: int
    end: int


class QuotedTemplate(NamedTuple):
    """A template in quotes, the text between the quotes, and whether its statement is the only one."""

    start: int
    end: int
    text: str
    is_alone: bool


_PERCENT = "%s"
"""A parameter as the driver of Snowflake writes it."""


def syntax_problem(sql: str, dialect: str) -> SqlProblem | None:
    """Return the first mistake that is certain; None where there is none."""
    if len(sql) > _LONGEST or _BLOCK.search(sql):
        return None
    templates = expressions(sql)
    text = _with_names(sql, templates)
    if dialect == "snowflake":
        text = text.replace(_PERCENT, ":s")  # sqlglot knows the parameters of other drivers
    tokens = _tokens(text, dialect)
    if tokens is None:
        return None if templates else SqlProblem(len(sql), len(sql))
    found = _parse(text, tokens, dialect)
    if found is None or (_ON_CONFLICT.search(text) and _parses(_ON_CONFLICT.sub(_blank, text), dialect)):
        return None  # sqlglot takes ON CONFLICT after a join for the condition of the join
    first, last = max(((start, end) for start, end in _statements(tokens) if start <= found.start), default=(0, 0))
    if not _WELL_KNOWN.match(text, first, last) or _is_beyond_sqlglot(text, found):
        return None
    quoted = _strings(tokens)
    before = [place for place in templates if first <= place[0] < found.end]
    return found if all(_around(place, quoted) for place in before) else None


def _is_beyond_sqlglot(text: str, found: SqlProblem) -> bool:
    """At ``(`` it may have tried what is inside and have given up for another reason. A string behind a word may be of
    a type that it does not know: ``cidr '10.0.0.0/8'``.
    """
    stopped = text[found.start : found.end]
    return stopped == "(" or (stopped.startswith("'") and text[: found.start].rstrip()[-1:].isalnum())


def quoted_templates(sql: str, dialect: str) -> tuple[QuotedTemplate, ...]:
    """Return the templates inside quotes, where a parameter could replace the quoted text."""
    templates = expressions(sql)
    tokens = _tokens(_with_names(sql, templates), dialect) if templates and len(sql) <= _LONGEST else None
    if not tokens or "'" not in sql:
        return ()
    statements = tuple(_statements(tokens))
    takers = [place for place in statements if _first_word(sql, place) in _TAKE_PARAMETERS]
    strings = _strings(tokens)
    return tuple(
        QuotedTemplate(*place, sql[string[0] + 1 : string[1] - 1].replace("''", "'"), len(statements) == 1)
        for place in templates
        if (string := _around(place, strings)) and _around(place, takers)
    )


def _with_names(sql: str, templates: Sequence[_Place]) -> str:
    """Return every template as a name of the same length, so that all places stay."""
    parts: list[str] = []
    position = 0
    for start, end in templates:
        parts += [sql[position:start], "x" * (end - start)]
        position = end
    return "".join((*parts, sql[position:]))


def _blank(found: re.Match[str]) -> str:
    return " " * len(found.group())


def _tokens(text: str, dialect: str) -> list[Token] | None:
    """None when a quote or a comment is never closed."""
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.errors import TokenError

    try:
        return Dialect.get_or_raise(dialect).tokenize(text)
    except TokenError:
        return None


def _parses(text: str, dialect: str) -> bool:
    return _parse(text, _tokens(text, dialect) or [], dialect) is None


def _parse(text: str, tokens: list[Token], dialect: str) -> SqlProblem | None:
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.errors import ErrorLevel, ParseError

    parser = Dialect.get_or_raise(dialect).parser(error_level=ErrorLevel.RAISE, error_message_context=len(text))
    try:
        with _quiet():
            parser.parse(tokens, text)
    except ParseError as error:
        details = error.errors[0] if error.errors else {}
        start = len(details.get("start_context") or "")  # the context is all of the text before
        return SqlProblem(start, start + len(details.get("highlight") or ""))
    except RecursionError:
        return None
    return None


@contextmanager
def _quiet() -> Generator[None]:
    """Disable the log of sqlglot, which warns of SQL that it parses as a command."""
    logger = logging.getLogger("sqlglot")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _statements(tokens: list[Token]) -> Iterator[_Place]:
    """Start and end of each, without the semicolon."""
    ends = [index for index, token in enumerate(tokens) if token.token_type.name == "SEMICOLON"]
    for before, after in pairwise((-1, *ends, len(tokens))):
        if after - before > 1:
            yield tokens[before + 1].start, tokens[after - 1].end + 1


def _first_word(sql: str, place: _Place) -> str:
    found = re.match(r"[\s(]*(\w+)", sql[place[0] : place[1]])
    return found[1].upper() if found else ""


def _strings(tokens: list[Token]) -> list[_Place]:
    """Return the strings that a parameter could replace."""
    before = ["", *(token.text.upper() for token in tokens)]
    return [
        (token.start, token.end + 1)
        for token, word in zip(tokens, before, strict=False)
        if token.token_type.name == "STRING" and word not in _LITERAL_ONLY
    ]


def _around(place: _Place, ranges: Sequence[_Place]) -> _Place | None:
    """Return the one of the ranges, which are in order, that has the place inside."""
    index = bisect_right(ranges, place) - 1
    return ranges[index] if index >= 0 and place[1] <= ranges[index][1] else None
