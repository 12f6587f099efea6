"""YAML nodes with their places, and the way from a node to JSON and to a graph's Value.

An alias is the same node as its anchor, so nodes may be shared; the reader keeps the written-out size and
depth within its budgets, which lets the walks here recurse. Containers compare by identity, because comparing
shared nodes by value would walk them as if they were written out. Nodes form no cycles, so the garbage collector need
not know them (``gc=False``).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

import msgspec

from noetl_compiler.graph import Json, Span, Value
from noetl_compiler.graph.contents import pointer
from noetl_compiler.source import ScalarStyle

__all__ = ["MappingNode", "Node", "ScalarNode", "SequenceNode", "plain", "value_of"]


class ScalarNode(msgspec.Struct, frozen=True, gc=False):
    """A scalar. ``text`` is its decoded text, ``value`` what YAML 1.1 makes of it; a key's value is its text.

    ``expressions`` has the place of every ``{{ }}`` and ``{% %}`` of the text, in order (source.expressions).
    """

    value: Json
    text: str
    span: Span
    style: ScalarStyle
    expressions: tuple[Span, ...] = ()

    @property
    def template_span(self) -> Span | None:
        """From the first expression to the end of the last, when the value is a string that has any."""
        if not self.expressions or not isinstance(self.value, str):
            return None
        first, last = self.expressions[0], self.expressions[-1]
        return Span(first.line, first.col, last.end_line, last.end_col)


class MappingNode(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A mapping. Keys are unique scalars; merge keys (``<<``) are already merged."""

    entries: tuple[tuple[ScalarNode, Node], ...]
    span: Span

    def get(self, key: str) -> Node | None:
        """Return the node of a key, None when the key is absent."""
        for name, node in self.entries:
            if name.text == key:
                return node
        return None


class SequenceNode(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A sequence."""

    items: tuple[Node, ...]
    span: Span


Node: TypeAlias = ScalarNode | MappingNode | SequenceNode


def plain(node: Node) -> Json:
    """Return the node as JSON: dict, list, str, int, float, bool or None, aliases written out."""
    if isinstance(node, MappingNode):
        return {key.text: plain(item) for key, item in node.entries}
    if isinstance(node, SequenceNode):
        return [plain(item) for item in node.items]
    return node.value


def value_of(node: Node, pointer_base: str = "", *, literal: Collection[str] = ()) -> Value:
    """Return the node as a graph Value: its JSON and the span of every string that has a template.

    ``pointer_base`` is the JSON pointer under which the caller will put the data. At the pointers in
    ``literal`` (they include ``pointer_base``) and below them nothing is a template: code stays code.
    """
    templates: dict[str, Span] = {}
    _collect(node, pointer_base, literal, templates)
    return Value(plain(node), templates)


def _collect(node: Node, place: str, literal: Collection[str], templates: dict[str, Span]) -> None:
    if place in literal:
        return
    if isinstance(node, ScalarNode):
        if span := node.template_span:
            templates[place] = span
        return
    named = ((key.text, item) for key, item in node.entries) if isinstance(node, MappingNode) else enumerate(node.items)
    for key, item in named:
        if not isinstance(item, ScalarNode) or item.expressions:
            _collect(item, pointer(place, key), literal, templates)
