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
from noetl_compiler.reading.scalar_positions import span_in_scalar
from noetl_compiler.report import Report
from noetl_compiler.source import expression_ranges

__all__ = ["BoundSql", "bind_sql"]

_MASK = "\ue000"
"""Replaces each character of a template while the statement is tokenised."""

_TOKEN = re.compile(
    rf"""
    (?P<comment> --[^\n]* | /\*.*?\*/ )
      | (?P<unbindable> [eE]'(?:[^'\\]|''|\\.)*' | "(?:[^"]|"")*" | \$(?P<tag>\w*)\$ .*? \$(?P=tag)\$ )
      | (?: \b(?P<type> interval|timestamptz|timestamp|date|time ) \s+ )? (?P<literal> '(?:[^']|'')*' )
      | (?P<templates> {_MASK}+ )
      | (?P<semicolon> ; )
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)


class BoundSql(NamedTuple):
    """A statement with parameters ``$1`` ..., and their templates in order, each with its span."""

    query: str
    values: tuple[tuple[str, Span], ...]


def bind_sql(node: ScalarNode, report: Report, *, parameter_count: int = 0) -> BoundSql:
    """Turn every template of the statement into a parameter. ``parameter_count`` parameters are already bound. Reports
    templates that cannot be bound.
    """
    return _Binder(node, report, parameter_count).bind()


class _Binder:
    """Converts one statement, token by token."""

    def __init__(self, node: ScalarNode, report: Report, parameter_count: int) -> None:
        self._node = node
        self._report = report
        self._parameter_count = parameter_count
        self._values: list[tuple[str, Span]] = []
        self._templates = expression_ranges(node.text)

    def bind(self) -> BoundSql:
        text = self._node.text
        if any(text.startswith("{%", start) for start, _ in self._templates):
            self._report_error(
                0,
                len(text),
                "a statement of a cursor cannot contain {% %}",
                "choose with CASE, or bind {{ a if b else c }}",
            )
            return BoundSql(text, ())
        query, position = "", 0
        for token in _TOKEN.finditer(self._masked_text()):
            query += text[position : token.start()] + self._convert_token(token)
            position = token.end()
        return BoundSql(query + text[position:], tuple(self._values))

    def _masked_text(self) -> str:
        masked_text = self._node.text
        for start, end in self._templates:
            masked_text = f"{masked_text[:start]}{_MASK * (end - start)}{masked_text[end:]}"
        return masked_text

    def _convert_token(self, token: re.Match[str]) -> str:
        start, end = token.span()
        text = self._node.text[start:end]
        if token["semicolon"]:
            return self._check_semicolon(start, end, token.string[end:])
        if _MASK not in token[0]:
            return text
        if token["templates"]:
            return "".join(
                self._add_parameter(*template_range)
                for template_range in self._templates
                if start <= template_range[0] < end
            )
        if token["literal"]:
            return self._bind_literal(token)
        if token["unbindable"]:
            hint = "write the name itself, or a plain literal '...'"
            self._report_error(start, end, "a template cannot be inside a quoted name, an E'' literal or $$", hint)
            return text
        return " "

    def _bind_literal(self, token: re.Match[str]) -> str:
        """Bind a string literal. It is cast to text first, because a cast of a literal parses it, but a cast of a
        parameter declares its type.
        """
        value = self._add_parameter(*token.span("literal"), is_literal=True)
        if token["type"]:
            return f"{value}::text::{token['type']}"
        return f"{value}::text" if token.string[token.end() :].lstrip().startswith("::") else value

    def _add_parameter(self, start: int, end: int, *, is_literal: bool = False) -> str:
        template = self._node.text[start:end]
        if is_literal:
            template = self._literal_content(start + 1, end - 1)
        self._values.append((template, self._span(start, end)))
        return f"${self._parameter_count + len(self._values)}"

    def _literal_content(self, start: int, end: int) -> str:
        """Return the content of a literal, unescaping quotes outside of templates."""
        text, content, position = self._node.text, "", start
        for first, last in self._templates:
            if start <= first and last <= end:
                content += text[position:first].replace("''", "'") + text[first:last]
                position = last
        return content + text[position:end].replace("''", "'")

    def _check_semicolon(self, start: int, end: int, remaining_sql: str) -> str:
        """Allow a semicolon only at the end, as only a single statement can have parameters."""
        if re.sub(r"--[^\n]*|/\*.*?\*/", "", remaining_sql, flags=re.DOTALL).strip():
            self._report_error(
                start, end, "each field of a cursor takes one statement", "join them with WITH ... AS (...)"
            )
        return ""

    def _report_error(self, start: int, end: int, message: str, hint: str) -> None:
        self._report.error(Code.WRONG_VALUE, self._span(start, end), message, hint)

    def _span(self, start: int, end: int) -> Span:
        node = self._node
        return span_in_scalar(self._report.source, node, start, end) or node.template_span or node.span
