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
        self._key_paths: dict[tuple[int, int], str] = {}
        for key_path, position in _key_paths(root, "") if root is not None else ():
            self._key_paths.setdefault(position, key_path)

    def describe(self, span: Span, step: Span) -> str:
        """Return the line and, if known, the key path relative to the step."""
        above = self._key_paths.get((step.line, step.col), "")
        key_path = self._key_paths.get((span.line, span.col), "")
        below = key_path.removeprefix(above).lstrip(".") if key_path.startswith(above) else key_path
        return f"line {span.line}{below and f', {below}'}"


def _key_paths(node: Node, key_path: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield each node's key path and position, outer nodes first. An entry's key has the path of the entry."""
    yield key_path, (node.span.line, node.span.col)
    if isinstance(node, MappingNode):
        for key, item in node.entries:
            below = f"{key_path}.{key.text}".removeprefix(".")
            yield below, (key.span.line, key.span.col)
            yield from _key_paths(item, below)
    elif isinstance(node, SequenceNode):
        for index, item in enumerate(node.items):
            yield from _key_paths(item, f"{key_path}[{index}]")
