"""YAML nodes with their spans, and their conversion to JSON and to a graph's Value.

An alias is the same node as its anchor, so nodes may be shared. The reader limits the expanded size and the depth, so
functions may recurse over nodes. Collections compare by identity, because comparing shared nodes by value would expand
them. Nodes form no cycles, so the garbage collector does not track them (``gc=False``).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

import msgspec

from noetl_compiler.graph import Json, Span, Value
from noetl_compiler.graph.contents import pointer
from noetl_compiler.source import ScalarStyle

__all__ = ["MappingNode", "Node", "ScalarNode", "SequenceNode", "string_node", "to_json", "value_of"]


class ScalarNode(msgspec.Struct, frozen=True, gc=False):
    """A scalar. ``text`` is its decoded text, ``value`` its value in YAML 1.1; the value of a key is its text.

    ``expressions`` has the span of every ``{{ }}`` and ``{% %}`` of the text, in order (source.expression_spans).
    """

    value: Json
    text: str
    span: Span
    style: ScalarStyle
    expressions: tuple[Span, ...] = ()

    @property
    def template_span(self) -> Span | None:
        """The span from the first to the last expression; None if the value is not a string or has none."""
        if not self.expressions or not isinstance(self.value, str):
            return None
        first, last = self.expressions[0], self.expressions[-1]
        return Span(first.line, first.col, last.end_line, last.end_col)


class MappingNode(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A mapping. Keys are unique scalars; merge keys (``<<``) are already merged."""

    entries: tuple[tuple[ScalarNode, Node], ...]
    span: Span

    def get(self, key: str) -> Node | None:
        """Return the value of a key; None if the key is absent."""
        for name, node in self.entries:
            if name.text == key:
                return node
        return None

    def without(self, *keys: str) -> MappingNode:
        """Return the mapping without the entries of these keys."""
        return MappingNode(tuple(entry for entry in self.entries if entry[0].text not in keys), self.span)


class SequenceNode(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A sequence."""

    items: tuple[Node, ...]
    span: Span


Node: TypeAlias = ScalarNode | MappingNode | SequenceNode


def string_node(text: str, span: Span) -> ScalarNode:
    """Return a string that is not in the document itself, such as the key of an entry that a conversion adds."""
    return ScalarNode(text, text, span, "plain")


def to_json(node: Node) -> Json:
    """Return the node as JSON: dict, list, str, int, float, bool or None, with aliases expanded."""
    if isinstance(node, MappingNode):
        return {key.text: to_json(item) for key, item in node.entries}
    if isinstance(node, SequenceNode):
        return [to_json(item) for item in node.items]
    return node.value


def value_of(node: Node, pointer_base: str = "", *, literal_pointers: Collection[str] = ()) -> Value:
    """Return the node as a graph Value: its JSON and the span of every string that has a template.

    ``pointer_base`` is the JSON pointer at which the caller will put the data. Strings at or below one of the
    ``literal_pointers``, which begin with ``pointer_base``, are not templates, such as code.
    """
    templates: dict[str, Span] = {}
    _collect_templates(node, pointer_base, literal_pointers, templates)
    return Value(to_json(node), templates)


def _collect_templates(node: Node, path: str, literal_pointers: Collection[str], templates: dict[str, Span]) -> None:
    if path in literal_pointers:
        return
    if isinstance(node, ScalarNode):
        if span := node.template_span:
            templates[path] = span
        return
    children = (
        ((key.text, item) for key, item in node.entries) if isinstance(node, MappingNode) else enumerate(node.items)
    )
    for key, item in children:
        if not isinstance(item, ScalarNode) or item.expressions:
            _collect_templates(item, pointer(path, key), literal_pointers, templates)
