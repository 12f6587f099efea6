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

__all__ = ["code_place", "foreign_texts", "is_go", "with_go_quoted"]

_GO = re.compile(r"\{\{-?\s*\.")
_SQL = frozenset({*SQL_COMMANDS, "script"})
_FIELDS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "python": frozenset({"code", "script"}),
        **dict.fromkeys(SQL_LANGUAGES, _SQL),
        **{kind: tool.commands for kind, tool in KINDS.items() if tool.commands},
    }
)
"""Tool kind -> the fields that hold code, SQL or commands."""


def foreign_texts(kind: str, entries: Iterable[tuple[ScalarNode, Node]]) -> tuple[ForeignText, ...]:
    """Return the code, SQL and commands among the fields of a tool; lists are flattened."""
    fields = _FIELDS.get(kind, frozenset())
    own = ((key.text, node) for key, node in entries if key.text in fields)
    return tuple(ForeignText(field, text) for field, node in own for text in _texts(node))


def _texts(node: Node) -> Iterator[ScalarNode]:
    for one in node.items if isinstance(node, SequenceNode) else (node,):
        if isinstance(one, ScalarNode) and isinstance(one.value, str):
            yield one


def code_place(texts: Iterable[ForeignText], source: SourceFile) -> Span | None:
    """Return the span of the code or SQL, None without any. ``code`` precedes ``script``, as in the tool."""
    found = sorted(texts, key=lambda one: one.field)
    if not found:
        return None
    node = found[0].node
    if node.style != "literal":
        return node.span
    lines = node.text.rstrip("\n").split("\n")
    first = node.span.line + 1
    blank = next((index for index, line in enumerate(lines) if line.strip()), 0)
    written = source.line(first + blank)
    return Span(first, 1 + max(0, len(written) - len(lines[blank])), first + len(lines) - 1, 1 + len(written))


def is_go(expression: str) -> bool:
    """Whether an expression belongs to a Go template."""
    return _GO.match(expression) is not None


def with_go_quoted(node: Node) -> Node:
    """Replace every Go template in a node by a Jinja string: ``{{ "{{.ID}}" }}``."""
    if isinstance(node, MappingNode):
        return MappingNode(tuple((key, with_go_quoted(item)) for key, item in node.entries), node.span)
    if isinstance(node, SequenceNode):
        return SequenceNode(tuple(with_go_quoted(item) for item in node.items), node.span)
    if node.template_span is None or "{{" not in node.text:
        return node
    text = _quoted(node.text)
    return node if text == node.text else replace(node, text=text, value=text)


def _quoted(text: str) -> str:
    parts: list[str] = []
    position = 0
    for start, end in expression_ranges(text):
        found = text[start:end]
        parts += [text[position:start], _jinja_string(found) if is_go(found) else found]
        position = end
    return "".join((*parts, text[position:]))


def _jinja_string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'{{{{ "{escaped}" }}}}'
