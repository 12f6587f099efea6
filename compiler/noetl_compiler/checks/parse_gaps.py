"""Parts of the workflow that could not be parsed, so that other checks do not report them as missing."""

from __future__ import annotations

from collections.abc import Iterator

from noetl_compiler.diagnostics import did_you_mean
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook

__all__ = ["has_unparsed_route", "names_in_unparsed_items"]

_ROUTE_KEYS = ("next", "case")
"""Keys of a step that contain its routes."""


def names_in_unparsed_items(playbook: Playbook, report: Report) -> frozenset[str]:
    """Return the scalars of items that could not be parsed as steps, because any of them may be the name of a step. If
    there is such an item, ``""`` is included.
    """
    return frozenset(text for item in _unparsed_items(playbook, report) for text in ("", *_scalar_values(item)))


def has_unparsed_route(playbook: Playbook, report: Report) -> bool:
    """Whether the routes of a step, or its name, could not be parsed."""
    return any(_unparsed_items(playbook, report)) or any(
        _has_broken_route(item, report) for item in _workflow_items(report)
    )


def _unparsed_items(playbook: Playbook, report: Report) -> Iterator[Node]:
    parsed_spans = {step.span for step in playbook.steps}
    return (item for item in _workflow_items(report) if item.span not in parsed_spans)


def _workflow_items(report: Report) -> tuple[Node, ...]:
    workflow = report.root.get("workflow") if isinstance(report.root, MappingNode) else None
    return workflow.items if isinstance(workflow, SequenceNode) else ()


def _scalar_values(node: Node) -> Iterator[str]:
    for _, item in node.entries if isinstance(node, MappingNode) else ():
        if isinstance(item, ScalarNode):
            yield item.text


def _has_broken_route(step: Node, report: Report) -> bool:
    if not isinstance(step, MappingNode) or not report.has_error_in(step.span):
        return False
    values = {key.text: node for key, node in step.entries}
    if any(report.has_error_in(values[key].span) for key in _ROUTE_KEYS if key in values):
        return True
    if any(_is_empty(values[key]) for key in _ROUTE_KEYS if key in values):
        return True  # unknown keys of the step may belong to it, but are not indented
    return any(did_you_mean(key.text, _ROUTE_KEYS) for key, _ in step.entries if report.has_error_in(key.span))


def _is_empty(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.value is None
