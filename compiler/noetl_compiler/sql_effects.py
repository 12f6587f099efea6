"""What the SQL of a task does to its transaction, derived from the first words of its statements.

The tools ask the database itself, when they run (noetl_activities.postgres, noetl_activities.duckdb_once). Here it is
reported before, for people: tests compare both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

__all__ = ["SqlEffect", "sql_effect", "statements"]

_TOKEN = re.compile(
    r"""
    (?P<gap> --[^\n]* | /\*.*?(?:\*/|\Z) | \{\#.*?(?:\#\}|\Z) | \{%.*?(?:%\}|\Z) )
    | (?P<part> '(?:[^']|'')*(?:'|\Z) | "[^"]*(?:"|\Z) | \$(?P<tag>\w*)\$.*?(?:\$(?P=tag)\$|\Z)
      | \{\{.*?(?:\}\}|\Z) )
    | (?P<end> ; )
    """,
    re.VERBOSE | re.DOTALL,
)

_BETWEEN = re.compile(r"(?<=COPY ).*(?= TO)|\([^)]*\)", re.IGNORECASE)
"""The separators between the words of a statement."""

Answer: TypeAlias = Literal["reads", "commits", "outside", "unknown"]


class SqlEffect(NamedTuple):
    """The effect of the SQL of a call.

    ``reads``: nothing is written. ``commits``: all of it in one transaction. ``outside``: ``statement`` begins one
    that takes effect outside of the transaction, or refuses one. ``unknown``: that is known only when it runs.
    """

    kind: Answer
    statement: str = ""


class _Words(NamedTuple):
    """The first words of statements that only read, that cannot run in a transaction, and that are unknown."""

    reads: re.Pattern[str]
    outside: re.Pattern[str]
    unknown: re.Pattern[str]


def _words(reads: str, outside: str, unknown: str) -> _Words:
    return _Words(*(re.compile(rf"(?:{words})(?!\w)", re.IGNORECASE) for words in (reads, outside, unknown)))


_ENDS = r"BEGIN|START TRANSACTION|COMMIT|END|ROLLBACK(?! (?:WORK |TRANSACTION )?TO\b)|ABORT"
_DATABASES: Mapping[str, _Words] = MappingProxyType(
    {
        "postgres": _words(
            r"(?!)",  # a function in a SELECT may write, and then the transaction keeps the outcome
            rf"{_ENDS}|PREPARE TRANSACTION|VACUUM|(?:CREATE|DROP) (?:DATABASE|TABLESPACE)|ALTER SYSTEM|DISCARD ALL"
            r"|(?:CREATE(?: UNIQUE)?|DROP) INDEX CONCURRENTLY|REINDEX(?: \([^)]*\))? (?:DATABASE|SYSTEM|SCHEMA)"
            r"|REINDEX(?: \([^)]*\))? (?:INDEX|TABLE) CONCURRENTLY",
            r"\{\{|CALL|DO (?=.*\b(?:COMMIT|ROLLBACK)\b)",
        ),
        "duckdb": _words(
            "SELECT|FROM|EXPLAIN|PRAGMA|SET|LOAD|CALL|SHOW|DESCRIBE|SUMMARIZE",
            rf"{_ENDS}|ATTACH|DETACH|(?:FORCE )?CHECKPOINT|EXPORT DATABASE|COPY .*\bTO",
            r"\{\{",
        ),
    }
)


def sql_effect(kind: str, texts: Iterable[str]) -> SqlEffect:
    """Return the effect of a call of the tool ``kind`` with these SQL texts."""
    words = _DATABASES[kind]
    found = [one for text in texts for one in statements(text)]
    outside = next((match for one in found if (match := words.outside.match(one))), None)
    if outside is not None:
        return SqlEffect("outside", " ".join(_BETWEEN.sub(" ", outside[0]).upper().split()))
    if not found or any(words.unknown.match(one) for one in found):
        return SqlEffect("unknown")
    return SqlEffect("reads" if all(words.reads.match(one) for one in found) else "commits")


def statements(text: str) -> list[str]:
    """Return the statements without comments, each on one line; ``;`` in quotes and templates does not divide."""
    return [one for part in "".join(_pieces(text)).split("\0") if (one := " ".join(part.split()))]


def _pieces(text: str) -> Iterator[str]:
    """Yield the text with ``\\0`` where a statement ends."""
    text, start = text.replace("\0", " "), 0
    for match in _TOKEN.finditer(text):
        yield text[start : match.start()]
        yield "\0" if match["end"] else match["part"] or " "
        start = match.end()
    yield text[start:]
