"""Turn the templates of a SQL statement into parameters, so that values are never part of the SQL text.

    WHERE owner = '{{ workload.owner }}' LIMIT {{ n }}    ->    WHERE owner = $1 LIMIT $2

A string literal with templates becomes one parameter. Comments with templates are removed.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from noetl_compiler.codes import Code
from noetl_compiler.graph import Span
from noetl_compiler.nodes import ScalarNode
from noetl_compiler.reading.scalar_places import span_in_scalar
from noetl_compiler.report import Report
from noetl_compiler.source import expression_ranges

__all__ = ["BoundSql", "bound_sql"]

_MARK = "\ue000"
"""Replaces each character of a template while the statement is tokenised."""

_TOKEN = re.compile(
    rf"""
    (?P<comment> --[^\n]* | /\*.*?\*/ )
      | (?P<fixed> [eE]'(?:[^'\\]|''|\\.)*' | "(?:[^"]|"")*" | \$(?P<tag>\w*)\$ .*? \$(?P=tag)\$ )
      | (?: \b(?P<type> interval|timestamptz|timestamp|date|time ) \s+ )? (?P<text> '(?:[^']|'')*' )
      | (?P<bare> {_MARK}+ )
      | (?P<end> ; )
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)


class BoundSql(NamedTuple):
    """A statement with ``$1`` ..., and the templates of its parameters in order, each with its span."""

    query: str
    values: tuple[tuple[str, Span], ...]


def bound_sql(node: ScalarNode, report: Report, *, after: int = 0) -> BoundSql:
    """Bind every template of the statement; the first is ``$<after + 1>``. Reports what cannot be bound."""
    return _Binding(node, report, after).bound()


class _Binding:
    def __init__(self, node: ScalarNode, report: Report, after: int) -> None:
        self._node = node
        self._report = report
        self._after = after
        self._values: list[tuple[str, Span]] = []
        self._places = expression_ranges(node.text)

    def bound(self) -> BoundSql:
        text = self._node.text
        if any(text.startswith("{%", start) for start, _ in self._places):
            self._refuse(
                0, len(text), "a statement of a cursor has no {% %}", "choose with CASE, or bind {{ a if b else c }}"
            )
            return BoundSql(text, ())
        query, position = "", 0
        for token in _TOKEN.finditer(self._without_templates()):
            query += text[position : token.start()] + self._of_token(token)
            position = token.end()
        return BoundSql(query + text[position:], tuple(self._values))

    def _without_templates(self) -> str:
        marked = self._node.text
        for start, end in self._places:
            marked = f"{marked[:start]}{_MARK * (end - start)}{marked[end:]}"
        return marked

    def _of_token(self, token: re.Match[str]) -> str:
        start, end = token.span()
        text = self._node.text[start:end]
        if token["end"]:
            return self._end(start, end, token.string[end:])
        if _MARK not in token[0]:
            return text
        if token["bare"]:
            return "".join(self._value(*place) for place in self._places if start <= place[0] < end)
        if token["text"]:
            return self._literal(token)
        if token["fixed"]:
            hint = "write the name itself, or a plain literal '...'"
            self._refuse(start, end, "a template cannot stand in a quoted name, an E'' literal or $$", hint)
            return text
        return " "

    def _literal(self, token: re.Match[str]) -> str:
        """Cast to text first: a cast of a literal parses its text, while a cast of a parameter declares its type."""
        value = self._value(*token.span("text"), is_literal=True)
        if token["type"]:
            return f"{value}::text::{token['type']}"
        return f"{value}::text" if token.string[token.end() :].lstrip().startswith("::") else value

    def _value(self, start: int, end: int, *, is_literal: bool = False) -> str:
        template = self._node.text[start:end]
        if is_literal:
            template = self._literal_content(start + 1, end - 1)
        self._values.append((template, self._span(start, end)))
        return f"${self._after + len(self._values)}"

    def _literal_content(self, start: int, end: int) -> str:
        """Return the content of a literal, unescaping quotes outside of templates."""
        text, found, position = self._node.text, "", start
        for first, last in self._places:
            if start <= first and last <= end:
                found += text[position:first].replace("''", "'") + text[first:last]
                position = last
        return found + text[position:end].replace("''", "'")

    def _end(self, start: int, end: int, rest: str) -> str:
        """Allow a semicolon only at the end, as only a single statement can have parameters."""
        if re.sub(r"--[^\n]*|/\*.*?\*/", "", rest, flags=re.DOTALL).strip():
            self._refuse(start, end, "a cursor takes one statement each", "join them by WITH ... AS (...)")
        return ""

    def _refuse(self, start: int, end: int, message: str, hint: str) -> None:
        self._report.error(Code.WRONG_VALUE, self._span(start, end), message, hint)

    def _span(self, start: int, end: int) -> Span:
        node = self._node
        return span_in_scalar(self._report.source, node, start, end) or node.template_span or node.span
