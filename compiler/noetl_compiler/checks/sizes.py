"""Data that is too large for a playbook: the graph is part of the input and history of every run."""

from __future__ import annotations

from noetl_compiler.codes import Code
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode
from noetl_compiler.report import Report
from noetl_compiler.source import SourceFile, Span
from noetl_compiler.syntax import Playbook

__all__ = ["DATA_KEYS", "MAX_VALUE_BYTES", "warn_of_oversized_data"]

MAX_VALUE_BYTES = 65_536
"""The maximum size of one value. Larger results are stored outside the history."""

_MAX_BYTES_PER_CHARACTER = 4

DATA_KEYS = frozenset(
    {"workload", "input", "args", "with", "data", "payload", "body", "json", "params", "in", "collection", "items"}
)
"""Keys whose values are data, not part of the language."""


def warn_of_oversized_data(playbook: Playbook, report: Report) -> None:  # noqa: ARG001 - the same for every check
    """Report NT112 for the innermost values that are too large."""
    oversized_nodes: list[tuple[Node, int]] = []
    if report.root is not None:
        _measure(report.root, False, oversized_nodes, _SourceLengths(report.source))
    for node, size in oversized_nodes:
        message = f"this value has {size:,} bytes, and every run stores it"
        hint = f"keep values over {MAX_VALUE_BYTES:,} bytes in a file or a table, and read them in a task"
        report.warning(Code.OVERSIZED_DATA, node.span, message, hint)


class _SourceLengths:
    """The lengths of nodes in the source text, as upper bounds of their sizes."""

    def __init__(self, source: SourceFile) -> None:
        self._source = source
        self._has_aliases = "&" in source.text

    def is_small(self, span: Span) -> bool:
        """Whether neither the node nor anything in it can be too large. An alias repeats any length."""
        if self._has_aliases:
            return False
        length = self._source.offset(span.end_line, span.end_col) - self._source.offset(span.line, span.col)
        return length * _MAX_BYTES_PER_CHARACTER <= MAX_VALUE_BYTES


def _measure(node: Node, is_data: bool, oversized_nodes: list[tuple[Node, int]], lengths: _SourceLengths) -> int:
    """Return the size of a node in bytes. Adds the values in it that are too large to ``oversized_nodes``."""
    if not is_data and not isinstance(node, ScalarNode) and lengths.is_small(node.span):
        return 0  # outside of data only the sizes of single values count
    size, count_before = 0, len(oversized_nodes)
    if isinstance(node, MappingNode):
        for key, item in node.entries:
            size += _byte_length(key.text) + _measure(item, is_data or key.text in DATA_KEYS, oversized_nodes, lengths)
    elif isinstance(node, SequenceNode):
        for item in node.items:
            size += _measure(item, is_data, oversized_nodes, lengths)
    else:
        size = _byte_length(node.text)
        if size > MAX_VALUE_BYTES:
            oversized_nodes.append((node, size))
        return size
    if is_data and size > MAX_VALUE_BYTES and len(oversized_nodes) == count_before:
        oversized_nodes.append((node, size))
    return size


def _byte_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
