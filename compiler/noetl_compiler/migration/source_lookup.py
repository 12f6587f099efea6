"""Finds the original YAML nodes of values in the syntax tree.

The syntax tree has values as plain JSON, without spans. The emitted nodes should keep the spans (comments are attached
to them), the order and the spelling of numbers of the original text. So values are looked up in the original
mapping: first an entry with the same key and value, then a collection with the same value under any key. A wrong match
can only move a comment, because both nodes have the same value.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from functools import cached_property
from typing import cast

from noetl_compiler.graph import Json, Span, Value
from noetl_compiler.graph.contents import pointer
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode, to_json
from noetl_compiler.reading.scalars import scalar_text

__all__ = ["NO_SPAN", "SourceLookup", "SourceMapping", "scalar"]

NO_SPAN = Span(0, 0, 0, 0)
"""The span of nodes that the original text does not have."""

Entry = tuple[ScalarNode, Node]


def scalar(value: Json, span: Span = NO_SPAN) -> ScalarNode:
    """Return a scalar node for the new document."""
    return ScalarNode(value, scalar_text(value), span, "plain")


class SourceLookup:
    """The mappings of a text, by their spans."""

    def __init__(self, root: MappingNode) -> None:
        self._mappings: dict[Span, MappingNode] = {}
        for node in _mappings(root):
            self._mappings.setdefault(node.span, node)
        self._parents = {item.span: node for node in _mappings(root) for _, item in node.entries}
        self.root = SourceMapping(root)

    def mapping_at(self, span: Span, outer: SourceMapping) -> SourceMapping:
        """Return the mapping with this span; ``outer`` if there is none."""
        mapping = self._mappings.get(span)
        return SourceMapping(mapping) if mapping else outer

    def parent_of(self, span: Span) -> SourceMapping | None:
        """Return the mapping that has the value with this span."""
        mapping = self._parents.get(span)
        return SourceMapping(mapping) if mapping else None


class SourceMapping:
    """A mapping of the original text, with all its nested values."""

    def __init__(self, node: MappingNode) -> None:
        self._node = node

    @property
    def span(self) -> Span:
        """The span of the mapping."""
        return self._node.span

    def entry(self, *keys: str) -> Entry | None:
        """Return the mapping's own entry under the first of these keys that it has."""
        entries = {key.text: (key, item) for key, item in self._node.entries}
        return next((entries[key] for key in keys if key in entries), None)

    def key(self, name: str, *older: str) -> ScalarNode:
        """Return ``name`` as a key, with the original span of that key or of one of its older names."""
        entry = next((self._mapping_entries[key][0] for key in (name, *older) if key in self._mapping_entries), None)
        return scalar(name, entry.span if entry else NO_SPAN)

    def text(self, *keys: str) -> str:
        """Return the original text of the scalar under one of these keys."""
        nodes = (self._mapping_entries[key][1] for key in keys if key in self._mapping_entries)
        return next((node.text for node in nodes if isinstance(node, ScalarNode)), "")

    def mapping_span(self, *keys: str) -> Span:
        """Return the span of the original mapping under one of these keys."""
        nodes = (self._mapping_entries[key][1] for key in keys if key in self._mapping_entries)
        return next((node.span for node in nodes if isinstance(node, MappingNode)), NO_SPAN)

    def node(self, value: Value, name: str, *older: str) -> Node:
        """Return the original node of the value under one of these keys, else a new one."""
        return self.original_node(value.data, name, *older) or self._node_of(name, value.data, value.templates, "")

    def original_node(self, data: Json, *keys: str) -> Node | None:
        """Return the original node under one of these keys if it has this value; else None."""
        value_json = json.dumps(data)
        return next((self._by_key[key, value_json] for key in keys if (key, value_json) in self._by_key), None)

    def scalar(self, value: Json, name: str, *older: str) -> ScalarNode:
        """Return a scalar with the span of the original one under one of these keys."""
        nodes = (self._mapping_entries[key][1] for key in (name, *older) if key in self._mapping_entries)
        return scalar(value, next((node.span for node in nodes if isinstance(node, ScalarNode)), NO_SPAN))

    def entries(self, value: Value) -> list[Entry]:
        """Return the entries of a value that is a mapping."""
        return self._entries_of(value.data, value.templates, "")

    def _entries_of(self, data: dict[str, Json], templates: dict[str, Span], path: str) -> list[Entry]:
        return [(self.key(key), self._node_of(key, item, templates, pointer(path, key))) for key, item in data.items()]

    def _node_of(self, key: str, data: Json, templates: dict[str, Span], path: str) -> Node:
        value_json = json.dumps(data)
        original = self._by_key.get((key, value_json)) or (self._collections.get(value_json) if data else None)
        if original is not None:
            return original
        if isinstance(data, dict):
            names = cast("dict[str, Json]", data)
            return MappingNode(tuple(self._entries_of(names, templates, path)), NO_SPAN)
        if isinstance(data, list):
            parts = enumerate(cast("list[Json]", data))
            items = (self._node_of("", item, templates, pointer(path, index)) for index, item in parts)
            return SequenceNode(tuple(items), NO_SPAN)
        return scalar(data, templates.get(path, NO_SPAN))

    @cached_property
    def _all_entries(self) -> tuple[Entry, ...]:
        return _entries_below(self._node, (MappingNode, SequenceNode))

    @cached_property
    def _mapping_entries(self) -> dict[str, Entry]:
        """The entries of this mapping and of the mappings below it, without those in lists."""
        entries = _entries_below(self._node, (MappingNode,))
        return {entry[0].text: entry for entry in reversed(entries)}

    @cached_property
    def _by_key(self) -> dict[tuple[str, str], Node]:
        return {(key.text, json.dumps(to_json(item))): item for key, item in reversed(self._all_entries)}

    @cached_property
    def _collections(self) -> dict[str, Node]:
        collections = (item for _, item in reversed(self._all_entries) if not isinstance(item, ScalarNode))
        return {json.dumps(to_json(item)): item for item in collections}


def _entries_below(root: Node, entered_types: tuple[type[Node], ...]) -> tuple[Entry, ...]:
    """Return the entries of the root and of the collections below it, the outer ones first. Of the values in mappings,
    only those of ``entered_types`` are entered.
    """
    entries: list[Entry] = []
    queue: deque[Node] = deque([root])
    while queue:
        node = queue.popleft()
        if isinstance(node, MappingNode):
            entries += node.entries
            queue += (item for _, item in node.entries if isinstance(item, entered_types))
        elif isinstance(node, SequenceNode):
            queue += node.items
    return tuple(entries)


def _mappings(node: Node) -> Iterator[MappingNode]:
    if isinstance(node, MappingNode):
        yield node
    children = node.items if isinstance(node, SequenceNode) else ()
    if isinstance(node, MappingNode):
        children = tuple(item for _, item in node.entries)
    for child in children:
        yield from _mappings(child)
