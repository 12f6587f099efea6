"""The source of a part of a graph in its playbook: ``line 14, retry.on_error``.

A graph stores spans only. The path of keys at a span is read from the document, if available; it shows the keys of the
dialect from which the part was compiled.
"""

from __future__ import annotations

from collections.abc import Iterator

from noetl_compiler.graph import Span
from noetl_compiler.nodes import MappingNode, Node, SequenceNode

__all__ = ["KeyPathLookup"]


class KeyPathLookup:
    """The key path at every span of a document; empty without a document."""

    def __init__(self, root: Node | None = None) -> None:
        self._keys: dict[tuple[int, int], str] = {}
        for keys, path in _places(root, "") if root is not None else ():
            self._keys.setdefault(path, keys)

    def of(self, span: Span, step: Span) -> str:
        """Return the line and, if known, the key path relative to the step."""
        above = self._keys.get((step.line, step.col), "")
        keys = self._keys.get((span.line, span.col), "")
        below = keys.removeprefix(above).lstrip(".") if keys.startswith(above) else keys
        return f"line {span.line}{below and f', {below}'}"


def _places(node: Node, keys: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield each node's key path and position, outer nodes first. An entry's key has the path of the entry."""
    yield keys, (node.span.line, node.span.col)
    if isinstance(node, MappingNode):
        for key, item in node.entries:
            below = f"{keys}.{key.text}".removeprefix(".")
            yield below, (key.span.line, key.span.col)
            yield from _places(item, below)
    elif isinstance(node, SequenceNode):
        for index, item in enumerate(node.items):
            yield from _places(item, f"{keys}[{index}]")
