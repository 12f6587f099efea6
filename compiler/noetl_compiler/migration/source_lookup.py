"""Where in the author's text did this come from?

The syntax tree holds values as plain JSON, which has lost its place; what is emitted should nevertheless keep
the place (comments hang on it), the order and the spelling of numbers that the author gave it. So values are
looked up in the part of the text they must have come from, by what they say: an entry with the same key and
the same value, else a collection with the same value under whatever key it had. A wrong match would move a
comment and nothing else, for both nodes mean the same.
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

__all__ = ["NOWHERE", "Region", "SourceLookup", "scalar"]

NOWHERE = Span(0, 0, 0, 0)
"""The place of what the author did not write."""

Entry = tuple[ScalarNode, Node]


def scalar(value: Json, span: Span = NOWHERE) -> ScalarNode:
    """Return a scalar of the document to be written."""
    return ScalarNode(value, scalar_text(value), span, "plain")


class SourceLookup:
    """The mappings of a text by their place."""

    def __init__(self, root: MappingNode) -> None:
        self._mappings: dict[Span, MappingNode] = {}
        for node in _mappings(root):
            self._mappings.setdefault(node.span, node)
        self._around = {item.span: node for node in _mappings(root) for _, item in node.entries}
        self.root = Region(root)

    def region(self, span: Span, around: Region) -> Region:
        """Return the mapping at a place, or the innermost one around it."""
        found = self._mappings.get(span)
        return Region(found) if found else around

    def around(self, span: Span) -> Region | None:
        """Return the mapping that has the value at this place."""
        found = self._around.get(span)
        return Region(found) if found else None


class Region:
    """One mapping of the text with all below it."""

    def __init__(self, node: MappingNode) -> None:
        self._node = node

    @property
    def span(self) -> Span:
        """The place of the mapping."""
        return self._node.span

    def entry(self, *keys: str) -> Entry | None:
        """Return the mapping's own entry under the first of these keys that it has."""
        own = {key.text: (key, item) for key, item in self._node.entries}
        return next((own[key] for key in keys if key in own), None)

    def key(self, name: str, *older: str) -> ScalarNode:
        """``name`` as a key, at the place where the author wrote it or an older name of it."""
        found = next((self._nearby[key][0] for key in (name, *older) if key in self._nearby), None)
        return scalar(name, found.span if found else NOWHERE)

    def text(self, *keys: str) -> str:
        """Return the original text of the scalar under one of these keys."""
        found = (self._nearby[key][1] for key in keys if key in self._nearby)
        return next((node.text for node in found if isinstance(node, ScalarNode)), "")

    def place(self, *keys: str) -> Span:
        """Return the span of the original mapping under one of these keys."""
        found = (self._nearby[key][1] for key in keys if key in self._nearby)
        return next((node.span for node in found if isinstance(node, MappingNode)), NOWHERE)

    def node(self, value: Value, name: str, *older: str) -> Node:
        """Return the original node of the value under one of these keys, else a new one."""
        return self.kept(value.data, name, *older) or self._node_of(name, value.data, value.templates, "")

    def kept(self, data: Json, *keys: str) -> Node | None:
        """Return the original node under one of these keys if it has this value; else None."""
        said = json.dumps(data)
        return next((self._by_key[key, said] for key in keys if (key, said) in self._by_key), None)

    def scalar(self, value: Json, name: str, *older: str) -> ScalarNode:
        """Return a scalar with the span of the original one under one of these keys."""
        found = (self._nearby[key][1] for key in (name, *older) if key in self._nearby)
        return scalar(value, next((node.span for node in found if isinstance(node, ScalarNode)), NOWHERE))

    def entries(self, value: Value) -> list[Entry]:
        """Return the entries of a value that is a mapping."""
        return self._entries_of(value.data, value.templates, "")

    def _entries_of(self, data: dict[str, Json], templates: dict[str, Span], place: str) -> list[Entry]:
        return [(self.key(key), self._node_of(key, item, templates, pointer(place, key))) for key, item in data.items()]

    def _node_of(self, key: str, data: Json, templates: dict[str, Span], place: str) -> Node:
        said = json.dumps(data)
        found = self._by_key.get((key, said)) or (self._collections.get(said) if data else None)
        if found is not None:
            return found
        if isinstance(data, dict):
            names = cast("dict[str, Json]", data)
            return MappingNode(tuple(self._entries_of(names, templates, place)), NOWHERE)
        if isinstance(data, list):
            parts = enumerate(cast("list[Json]", data))
            items = (self._node_of("", item, templates, pointer(place, index)) for index, item in parts)
            return SequenceNode(tuple(items), NOWHERE)
        return scalar(data, templates.get(place, NOWHERE))

    @cached_property
    def _all(self) -> tuple[Entry, ...]:
        return _entries_below(self._node, (MappingNode, SequenceNode))

    @cached_property
    def _nearby(self) -> dict[str, Entry]:
        """The entries that are reached without going into a list: the items of one have keys of their own."""
        found = _entries_below(self._node, (MappingNode,))
        return {entry[0].text: entry for entry in reversed(found)}

    @cached_property
    def _by_key(self) -> dict[tuple[str, str], Node]:
        return {(key.text, json.dumps(to_json(item))): item for key, item in reversed(self._all)}

    @cached_property
    def _collections(self) -> dict[str, Node]:
        found = (item for _, item in reversed(self._all) if not isinstance(item, ScalarNode))
        return {json.dumps(to_json(item)): item for item in found}


def _entries_below(root: Node, through: tuple[type[Node], ...]) -> tuple[Entry, ...]:
    """Return every entry, the outer ones first."""
    found: list[Entry] = []
    waiting: deque[Node] = deque([root])
    while waiting:
        node = waiting.popleft()
        if isinstance(node, MappingNode):
            found += node.entries
            waiting += (item for _, item in node.entries if isinstance(item, through))
        elif isinstance(node, SequenceNode):
            waiting += node.items
    return tuple(found)


def _mappings(node: Node) -> Iterator[MappingNode]:
    if isinstance(node, MappingNode):
        yield node
    children = node.items if isinstance(node, SequenceNode) else ()
    if isinstance(node, MappingNode):
        children = tuple(item for _, item in node.entries)
    for child in children:
        yield from _mappings(child)
