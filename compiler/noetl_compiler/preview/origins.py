"""Where a part of a graph comes from in its playbook: ``line 14, retry.on_error``.

The graph has places alone. The keys that lead to a place are read from the document again, if it is at hand: they tell
which words of its dialect became that part.
"""

from __future__ import annotations

from collections.abc import Iterator

from noetl_compiler.graph import Span
from noetl_compiler.nodes import MappingNode, Node, SequenceNode

__all__ = ["Origins"]


class Origins:
    """The keys of every place in a document; of none without one."""

    def __init__(self, root: Node | None = None) -> None:
        self._keys: dict[tuple[int, int], str] = {}
        for keys, place in _places(root, "") if root is not None else ():
            self._keys.setdefault(place, keys)

    def of(self, span: Span, step: Span) -> str:
        """The line, and the keys that lead to it from a step, as far as they are known."""
        above = self._keys.get((step.line, step.col), "")
        keys = self._keys.get((span.line, span.col), "")
        below = keys.removeprefix(above).lstrip(".") if keys.startswith(above) else keys
        return f"line {span.line}{below and f', {below}'}"


def _places(node: Node, keys: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """Every part with its keys, outer ones first: the key of an entry is a place of the entry's."""
    yield keys, (node.span.line, node.span.col)
    if isinstance(node, MappingNode):
        for key, item in node.entries:
            below = f"{keys}.{key.text}".removeprefix(".")
            yield below, (key.span.line, key.span.col)
            yield from _places(item, below)
    elif isinstance(node, SequenceNode):
        for index, item in enumerate(node.items):
            yield from _places(item, f"{keys}[{index}]")
