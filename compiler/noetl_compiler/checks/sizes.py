"""Data that is too large to stand in a playbook: the graph is part of every run's input and history."""

from __future__ import annotations

from collections.abc import Iterator

from noetl_compiler.codes import Code
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook

__all__ = ["LARGEST_VALUE", "warn_of_oversized_data"]

LARGEST_VALUE = 65_536
"""Bytes of one value, from which on results too are stored apart from the history."""

_DATA = frozenset(
    {"workload", "input", "args", "with", "data", "payload", "body", "json", "params", "in", "collection", "items"}
)
"""Keys below which everything is the author's data and no structure of ours."""


def warn_of_oversized_data(playbook: Playbook, report: Report) -> None:  # noqa: ARG001 - the same for every check
    """NT112. The smallest value that is too large is told, not what is around it."""
    for node, size in _oversized(report.root, False)[1] if report.root is not None else ():
        message = f"this value has {size:,} bytes, and every run carries it along"
        hint = f"keep what is over {LARGEST_VALUE:,} bytes in a file or a table, and read it in a task"
        report.warning(Code.OVERSIZED_DATA, node.span, message, hint)


def _oversized(node: Node, is_data: bool) -> tuple[int, list[tuple[Node, int]]]:
    """The size of a node in bytes, and the values in it that are too large."""
    if isinstance(node, ScalarNode):
        size = len(node.text.encode("utf-8", "surrogatepass"))
        return size, [(node, size)] if size > LARGEST_VALUE else []
    total, found = 0, list[tuple[Node, int]]()
    for key, item in _children(node):
        size, inner = _oversized(item, is_data or key in _DATA)
        total, found = total + size + len(key), found + inner
    if is_data and total > LARGEST_VALUE and not found:
        found.append((node, total))
    return total, found


def _children(node: MappingNode | SequenceNode) -> Iterator[tuple[str, Node]]:
    if isinstance(node, MappingNode):
        yield from ((key.text, item) for key, item in node.entries)
    else:
        yield from (("", item) for item in node.items)
