"""Determine the effect of SQL on its transaction, from the first words of its statements.

This is reported to people before a run. During a run, the tools ask the database (noetl_activities.postgres.tool,
noetl_activities.duckdb.ledger_transaction). Tests compare both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

__all__ = ["SqlEffect", "sql_effect", "statements"]

_TOKEN = re.compile(
    r"""
    (?P<ignored> --[^\n]* | /\*.*?(?:\*/|\Z) | \{\#.*?(?:\#\}|\Z) | \{%.*?(?:%\}|\Z) )
    | (?P<opaque> '(?:[^']|'')*(?:'|\Z) | "[^"]*(?:"|\Z) | \$(?P<tag>\w*)\$.*?(?:\$(?P=tag)\$|\Z)
      | \{\{.*?(?:\}\}|\Z) )
    | (?P<end> ; )
    """,
    re.VERBOSE | re.DOTALL,
)
"""Comments and Jinja's statements are ``ignored``; strings, quoted names and templates are ``opaque``: a semicolon in
them does not end a statement.
"""

_VARIABLE_PARTS = re.compile(r"(?<=COPY ).*(?= TO)|\([^)]*\)", re.IGNORECASE)
"""Parts that are left out when a statement is named: the source of COPY, and options in parentheses."""

EffectKind: TypeAlias = Literal["reads", "commits", "outside", "unknown"]


class SqlEffect(NamedTuple):
    """The effect of the SQL of a call.

    ``reads``: it only reads. ``commits``: it takes effect in one transaction. ``outside``: the statement that begins
    with ``statement`` takes effect outside of the transaction, or cannot run in one. ``unknown``: it is known only at
    run time.
    """

    kind: EffectKind
    statement: str = ""


class _FirstWords(NamedTuple):
    """The first words of statements that only read, that have effects outside of a transaction or cannot run in one,
    and whose effect is unknown.
    """

    reads: re.Pattern[str]
    outside: re.Pattern[str]
    unknown: re.Pattern[str]


def _compile_words(reads: str, outside: str, unknown: str) -> _FirstWords:
    return _FirstWords(*(re.compile(rf"(?:{words})(?!\w)", re.IGNORECASE) for words in (reads, outside, unknown)))


_TRANSACTION_CONTROL = r"BEGIN|START TRANSACTION|COMMIT|END|ROLLBACK(?! (?:WORK |TRANSACTION )?TO\b)|ABORT"
_FIRST_WORDS: Mapping[str, _FirstWords] = MappingProxyType(
    {
        "postgres": _compile_words(
            r"(?!)",  # none: a function in a SELECT may write
            rf"{_TRANSACTION_CONTROL}|PREPARE TRANSACTION|VACUUM|(?:CREATE|DROP) (?:DATABASE|TABLESPACE)|ALTER SYSTEM"
            r"|DISCARD ALL"
            r"|(?:CREATE(?: UNIQUE)?|DROP) INDEX CONCURRENTLY|REINDEX(?: \([^)]*\))? (?:DATABASE|SYSTEM|SCHEMA)"
            r"|REINDEX(?: \([^)]*\))? (?:INDEX|TABLE) CONCURRENTLY",
            r"\{\{|CALL|DO (?=.*\b(?:COMMIT|ROLLBACK)\b)",
        ),
        "duckdb": _compile_words(
            "SELECT|FROM|EXPLAIN|PRAGMA|SET|LOAD|CALL|SHOW|DESCRIBE|SUMMARIZE",
            rf"{_TRANSACTION_CONTROL}|ATTACH|DETACH|(?:FORCE )?CHECKPOINT|EXPORT DATABASE|COPY .*\bTO",
            r"\{\{",
        ),
    }
)


def sql_effect(kind: str, texts: Iterable[str]) -> SqlEffect:
    """Return the effect of a call of the tool ``kind`` with these SQL texts."""
    words = _FIRST_WORDS[kind]
    all_statements = [statement for text in texts for statement in statements(text)]
    outside = next((match for statement in all_statements if (match := words.outside.match(statement))), None)
    if outside is not None:
        return SqlEffect("outside", " ".join(_VARIABLE_PARTS.sub(" ", outside[0]).upper().split()))
    if not all_statements or any(words.unknown.match(statement) for statement in all_statements):
        return SqlEffect("unknown")
    return SqlEffect("reads" if all(words.reads.match(statement) for statement in all_statements) else "commits")


def statements(text: str) -> list[str]:
    """Return the statements without comments, each on one line. A ``;`` in quotes or templates ends no statement."""
    return [statement for part in "".join(_split_pieces(text)).split("\0") if (statement := " ".join(part.split()))]


def _split_pieces(text: str) -> Iterator[str]:
    """Yield the text with ``\\0`` where a statement ends."""
    text, start = text.replace("\0", " "), 0
    for match in _TOKEN.finditer(text):
        yield text[start : match.start()]
        yield "\0" if match["end"] else match["opaque"] or " "
        start = match.end()
    yield text[start:]
