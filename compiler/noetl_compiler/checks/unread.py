"""What the workflow says that could not be read: checks of the steps around it would take it for missing."""

from __future__ import annotations

from collections.abc import Iterator

from noetl_compiler.diagnostics import nearest
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode
from noetl_compiler.report import Report

__all__ = ["has_unread_way", "names_of_unread_steps"]

_WAYS = ("next", "case")
"""Keys of a step that say what follows it."""


def names_of_unread_steps(report: Report) -> frozenset[str]:
    """What may be the names of items that are no steps, or steps without a name; one may be ``""``."""
    return frozenset(text for step in _items(report) if not _is_step(step) for text in ("", *_texts(step)))


def has_unread_way(report: Report) -> bool:
    """Whether what a step says of its ways on, or its name, could not be understood."""
    return any(not _is_step(step) or _has_broken_way(step, report) for step in _items(report))


def _items(report: Report) -> tuple[Node, ...]:
    workflow = report.root.get("workflow") if isinstance(report.root, MappingNode) else None
    return workflow.items if isinstance(workflow, SequenceNode) else ()


def _is_step(node: Node) -> bool:
    name = node.get("step") if isinstance(node, MappingNode) else None
    return isinstance(name, ScalarNode) and bool(name.text)


def _texts(node: Node) -> Iterator[str]:
    for _, item in node.entries if isinstance(node, MappingNode) else ():
        if isinstance(item, ScalarNode):
            yield item.text


def _has_broken_way(step: Node, report: Report) -> bool:
    if not isinstance(step, MappingNode) or not report.has_error_in(step.span):
        return False
    values = {key.text: node for key, node in step.entries}
    if any(report.has_error_in(values[key].span) for key in _WAYS if key in values):
        return True
    return any(nearest(key.text, _WAYS) for key, _ in step.entries if report.has_error_in(key.span))
