"""Data that is too large for a playbook: the graph is part of the input and history of every run."""

from __future__ import annotations

from noetl_compiler.codes import Code
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode
from noetl_compiler.report import Report
from noetl_compiler.source import SourceFile, Span
from noetl_compiler.syntax import Playbook

__all__ = ["DATA_KEYS", "LARGEST_VALUE", "warn_of_oversized_data"]

LARGEST_VALUE = 65_536
"""Bytes of one value. Results over this size are stored outside the history."""

_MOST_BYTES_A_CHARACTER = 4

DATA_KEYS = frozenset(
    {"workload", "input", "args", "with", "data", "payload", "body", "json", "params", "in", "collection", "items"}
)
"""Keys whose values are data, not part of the language."""


def warn_of_oversized_data(playbook: Playbook, report: Report) -> None:  # noqa: ARG001 - the same for every check
    """NT112. Reports the innermost values that are too large."""
    found: list[tuple[Node, int]] = []
    if report.root is not None:
        _measure(report.root, False, found, _Written(report.source))
    for node, size in found:
        message = f"this value has {size:,} bytes, and every run stores it"
        hint = f"keep values over {LARGEST_VALUE:,} bytes in a file or a table, and read them in a task"
        report.warning(Code.OVERSIZED_DATA, node.span, message, hint)


class _Written:
    """The length of a node in the text, as a bound of its size."""

    def __init__(self, source: SourceFile) -> None:
        self._source = source
        self._has_aliases = "&" in source.text

    def is_small(self, span: Span) -> bool:
        """Whether neither the node nor anything in it can be too large. An alias repeats any length."""
        if self._has_aliases:
            return False
        length = self._source.offset(span.end_line, span.end_col) - self._source.offset(span.line, span.col)
        return length * _MOST_BYTES_A_CHARACTER <= LARGEST_VALUE


def _measure(node: Node, is_data: bool, found: list[tuple[Node, int]], written: _Written) -> int:
    """Return the size of a node in bytes. Adds the values in it that are too large to ``found``."""
    if not is_data and not isinstance(node, ScalarNode) and written.is_small(node.span):
        return 0  # outside of data only the sizes of single values count
    size, before = 0, len(found)
    if isinstance(node, MappingNode):
        for key, item in node.entries:
            size += _bytes(key.text) + _measure(item, is_data or key.text in DATA_KEYS, found, written)
    elif isinstance(node, SequenceNode):
        for item in node.items:
            size += _measure(item, is_data, found, written)
    else:
        size = _bytes(node.text)
        if size > LARGEST_VALUE:
            found.append((node, size))
        return size
    if is_data and size > LARGEST_VALUE and len(found) == before:
        found.append((node, size))
    return size


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
