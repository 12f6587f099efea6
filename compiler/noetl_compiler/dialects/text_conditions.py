"""Convert conditions with a comparison outside the braces: ``{{ workload.action }} == deploy``.

The engine that ran such files rendered the text and then compared words, so both sides are strings. As a template, the
condition would be a non-empty string, which is always true. It is converted to the intended expression:
``{{ (workload.action) | string == 'deploy' }}``.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

from noetl_compiler.source import expression_ranges, lone_expression

__all__ = ["as_single_template", "compares_outside_braces"]

_TOKEN = re.compile(
    r"\s*(?:(?P<operator>==|!=|>=|<=|>|<)|(?P<keyword>and\b|or\b|not\b|[()])"
    r"|(?P<word>'[^']*'|\"[^\"]*\"|[\w.:/-]+))"
)
_EQUALITY = frozenset({"==", "!="})
_TRUTH = frozenset({"true", "false"})
_OPERANDS = frozenset({"value", "word"})
_OPERATOR = re.compile(r"[=!]=|[<>]=?")
_COMMENT = re.compile(r"\{#.*?#\}", re.DOTALL)


class _Token(NamedTuple):
    """A token of the condition. ``kind`` is ``value`` for the expression of a template, else the name of a group of
    ``_TOKEN``.
    """

    kind: str
    text: str


def compares_outside_braces(text: str) -> bool:
    """Whether the text has a comparison operator outside its templates."""
    if expression_ranges(text) == ((0, len(text)),):
        return False
    outside = "".join(chunk for is_template, chunk in _chunks(text) if not is_template)
    return _OPERATOR.search(outside) is not None


def as_single_template(text: str) -> str | None:
    """Return the text as one template, None if it is not a comparison."""
    tokens: list[_Token] = []
    for is_template, chunk in _chunks(text):
        new_tokens = _tokenise_template(chunk) if is_template else _tokenise_text(chunk)
        if new_tokens is None:
            return None
        tokens += new_tokens
    if any({left.kind, right.kind} <= _OPERANDS for left, right in pairwise(tokens)):
        return None
    parts = [_convert_token(tokens, index) for index in range(len(tokens))]
    return None if None in parts else f"{{{{ {' '.join(filter(None, parts))} }}}}"


def _chunks(text: str) -> list[tuple[bool, str]]:
    """Split a text into (is_template, text), without Jinja comments."""
    text = _COMMENT.sub("", text)
    chunks: list[tuple[bool, str]] = []
    position = 0
    for start, end in expression_ranges(text):
        chunks += [(False, text[position:start]), (True, text[start:end])]
        position = end
    return [*chunks, (False, text[position:])]


def _tokenise_template(chunk: str) -> list[_Token] | None:
    expression = lone_expression(chunk)
    return None if expression is None else [_Token("value", expression)]


def _tokenise_text(chunk: str) -> list[_Token] | None:
    """Tokenise the text between templates; None if it contains anything but words, quoted strings and operators."""
    tokens: list[_Token] = []
    text = chunk.rstrip()
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            return None
        tokens.append(_Token(str(match.lastgroup), match[str(match.lastgroup)]))
        position = match.end()
    return tokens


def _convert_token(tokens: list[_Token], index: int) -> str | None:
    """Convert a token to a part of the expression; None for a word that is not compared with anything."""
    kind, text = tokens[index]
    if kind in ("operator", "keyword"):
        return text
    operator, other = _comparison(tokens, index)
    if operator is None:
        return f"({text})" if kind == "value" else None
    if kind == "word":
        return _literal(text, operator)
    if operator not in _EQUALITY:
        return f"({text})"
    case_filter = " | lower" if other.text.strip("'\"").lower() in _TRUTH else ""
    return f"({text}) | string{case_filter}"


def _comparison(tokens: list[_Token], index: int) -> tuple[str | None, _Token]:
    """Return the operator next to a token, and its other operand."""
    for step in (1, -1):
        operator_index, operand_index = index + step, index + 2 * step
        if (
            0 <= operator_index < len(tokens)
            and tokens[operator_index].kind == "operator"
            and 0 <= operand_index < len(tokens)
        ):
            return tokens[operator_index].text, tokens[operand_index]
    return None, _Token("", "")


def _literal(word: str, operator: str) -> str:
    if word[0] in "'\"":
        return word
    if operator not in _EQUALITY and re.fullmatch(r"-?\d+(?:\.\d+)?", word):
        return word
    return f"'{word.lower() if word.lower() in _TRUTH else word}'"
