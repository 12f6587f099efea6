"""Find code, SQL and commands in a tool's fields, and decide which ``{{`` in them are templates.

Python code is not rendered, as ``{{`` may occur in its format strings; splices.py handles templates in it.

Shell commands are rendered, but may contain Go templates for docker and kubectl: ``--format "{{.ID}}"``. No Jinja
expression begins with a dot, so one that does is a Go template.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from msgspec.structs import replace

from noetl_compiler.language.tools import KINDS, SQL_COMMANDS, SQL_LANGUAGES
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode
from noetl_compiler.source import SourceFile, Span, expression_ranges
from noetl_compiler.syntax import ForeignText

__all__ = ["code_span", "foreign_texts", "is_go_template", "quote_go_templates"]

_GO = re.compile(r"\{\{-?\s*\.")
_SQL = frozenset({*SQL_COMMANDS, "script"})
_FIELDS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "python": frozenset({"code", "script"}),
        **dict.fromkeys(SQL_LANGUAGES, _SQL),
        **{kind: tool.command_fields for kind, tool in KINDS.items() if tool.command_fields},
    }
)
"""Tool kind -> the fields that hold code, SQL or commands."""


def foreign_texts(kind: str, entries: Iterable[tuple[ScalarNode, Node]]) -> tuple[ForeignText, ...]:
    """Return the code, SQL and commands in the fields of a tool; lists are flattened."""
    fields = _FIELDS.get(kind, frozenset())
    code_fields = ((key.text, node) for key, node in entries if key.text in fields)
    return tuple(ForeignText(field, text) for field, node in code_fields for text in _texts(node))


def _texts(node: Node) -> Iterator[ScalarNode]:
    for item in node.items if isinstance(node, SequenceNode) else (node,):
        if isinstance(item, ScalarNode) and isinstance(item.value, str):
            yield item


def code_span(texts: Iterable[ForeignText], source: SourceFile) -> Span | None:
    """Return the span of the code or SQL, None without any. ``code`` precedes ``script``, as in the tool."""
    sorted_texts = sorted(texts, key=lambda text: text.field)
    if not sorted_texts:
        return None
    node = sorted_texts[0].node
    if node.style != "literal":
        return node.span
    lines = node.text.rstrip("\n").split("\n")
    first_line = node.span.line + 1
    first_nonblank = next((index for index, line in enumerate(lines) if line.strip()), 0)
    source_line = source.line(first_line + first_nonblank)
    indentation = max(0, len(source_line) - len(lines[first_nonblank]))
    return Span(first_line, 1 + indentation, first_line + len(lines) - 1, 1 + len(source_line))


def is_go_template(expression: str) -> bool:
    """Whether an expression belongs to a Go template."""
    return _GO.match(expression) is not None


def quote_go_templates(node: Node) -> Node:
    """Replace every Go template in a node by a Jinja string: ``{{ "{{.ID}}" }}``."""
    if isinstance(node, MappingNode):
        return MappingNode(tuple((key, quote_go_templates(item)) for key, item in node.entries), node.span)
    if isinstance(node, SequenceNode):
        return SequenceNode(tuple(quote_go_templates(item) for item in node.items), node.span)
    if node.template_span is None or "{{" not in node.text:
        return node
    text = _quote_go(node.text)
    return node if text == node.text else replace(node, text=text, value=text)


def _quote_go(text: str) -> str:
    parts: list[str] = []
    position = 0
    for start, end in expression_ranges(text):
        expression = text[start:end]
        parts += [text[position:start], _jinja_string(expression) if is_go_template(expression) else expression]
        position = end
    return "".join((*parts, text[position:]))


def _jinja_string(text: str) -> str:
    escaped_text = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'{{{{ "{escaped_text}" }}}}'
