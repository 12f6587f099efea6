"""Where in a template's source a word, or what Jinja could not read, stands. Jinja itself tells lines only."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate
from typing import Literal, TypeAlias

from jinja2.exceptions import TemplateSyntaxError
from jinja2.lexer import ignored_tokens
from jinja2.parser import Parser

from noetl_compiler.source import expressions
from noetl_compiler.templating.sandbox import ENVIRONMENT

__all__ = ["OFFSET", "Role", "broken_part", "find_path", "find_word"]

Role: TypeAlias = Literal["filter", "test", "call", "method", "attribute", "named"]

_ROLES: dict[Role, str] = {
    "filter": r"\|\s*(NAME)\b",
    "test": r"\bis\s+(?:not\s+)?(NAME)\b",
    "call": r"(?<![\w.])(NAME)\s*\(",
    "method": r"\.\s*(NAME)\s*\(",
    "attribute": r"\.\s*(NAME)\b",
    "named": r"(['\"]NAME['\"])",
}
_STRING = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL)
OFFSET = re.compile(r" at (\d+)$")
"""How the lexer tells where a character stands that it does not know."""

_MOST_TRIED = 50
_LONGEST_TRIED = 10_000


def find_word(source: str, word: str, role: Role, line: int = 1) -> tuple[int, int]:
    """Start and end of a name used as a filter, a test or a call, from a 1-based line on."""
    return _find(source, _ROLES[role].replace("NAME", re.escape(word)), _line_start(source, line))


def find_path(source: str, path: str) -> tuple[int, int]:
    """Start and end of the first use of a dotted path: ``a.b``, ``a['b']``."""
    head, *rest = path.split(".")
    steps = (rf"\s*(?:\.\s*{re.escape(one)}\b|\[\s*['\"]{re.escape(one)}['\"]\s*\])" for one in rest)
    return _find(source, rf"(?<![\w.])({re.escape(head)}\b{''.join(steps)})", max(0, source.find(head)))


def _find(source: str, pattern: str, start: int) -> tuple[int, int]:
    """The first group of the pattern, where it is in an expression and in no string; else the start."""
    places = _places(source)
    for found in re.compile(pattern).finditer(source, start):
        first, last = found.span(1)
        index = bisect_right(places, (first, len(source))) - 1
        if index >= 0 and last <= places[index][1] and not _is_in_string(source, places[index], first):
            return first, last
    return start, start


@lru_cache(maxsize=4)
def _places(source: str) -> tuple[tuple[int, int], ...]:
    return expressions(source)


def _is_in_string(source: str, expression: tuple[int, int], offset: int) -> bool:
    return any(found.start() < offset < found.end() for found in _STRING.finditer(source, *expression))


def broken_part(source: str, error: TemplateSyntaxError) -> tuple[int, int]:
    """Start and end of what Jinja stopped at: the character it names, the very token in the first expression that
    does not parse alone, else an expression on the line, else the line's start.
    """
    if told := OFFSET.search(error.message or ""):
        return int(told[1]), int(told[1]) + 1
    start = _line_start(source, error.lineno)
    places = [place for place in expressions(source) if place[1] >= start]
    for begin, end in places[:_MOST_TRIED]:
        if source.startswith("{{", begin) and (stopped := _stopped_at(source[begin:end])) is not None:
            return begin + stopped[0], begin + stopped[1]
    return next(iter(places), (start, start))


def _stopped_at(expression: str) -> tuple[int, int] | None:
    """The token that the parser did not expect, None when it expected all of them."""
    if len(expression) > _LONGEST_TRIED:
        return 0, len(expression)
    parser = None
    try:
        parser = Parser(ENVIRONMENT, expression)
        parser.parse()
    except TemplateSyntaxError:
        return _token(expression, 0 if parser is None else _tokens_left(parser))
    except (RecursionError, ValueError, OverflowError, MemoryError):  # too deep, or a number too long
        return 0, len(expression)
    return None


def _tokens_left(parser: Parser) -> int:
    """Behind the place where the parser stopped; none can be told when the rest is no Jinja either."""
    try:
        return sum(1 for _ in parser.stream)
    except TemplateSyntaxError:
        return 0


def _token(expression: str, left: int) -> tuple[int, int]:
    """The place of the token after which ``left - 1`` others follow."""
    try:
        tokens = list(ENVIRONMENT.lex(expression))
    except TemplateSyntaxError:
        return 0, len(expression)
    ends = accumulate(len(text) for _, _, text in tokens)
    places = [
        (end - len(text), end) for end, (_, kind, text) in zip(ends, tokens, strict=True) if kind not in ignored_tokens
    ]
    return places[-left] if 0 < left <= len(places) else (0, len(expression))


def _line_start(source: str, line: int) -> int:
    offset = 0
    for _ in range(line - 1):
        offset = source.find("\n", offset) + 1
    return offset
