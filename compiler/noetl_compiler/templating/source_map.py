"""Where a part of a template stands in the playbook's text.

The syntax tree keeps one span a template, which is all that a run needs. A finding wants the very name: this finds
the YAML scalar again which the template was read from. It is only asked when there is a finding, so the index over
the document is made at the first question.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from noetl_compiler.graph import Span, Template
from noetl_compiler.nodes import Node, ScalarNode, SequenceNode
from noetl_compiler.reading.scalar_places import span_in_scalar
from noetl_compiler.source import SourceFile, expressions

__all__ = ["TemplatePlaces", "scalars"]

_BRACES = "{{ "


class TemplatePlaces:
    """The templates of one document."""

    def __init__(self, source: SourceFile, root: Node | None) -> None:
        self._source = source
        self._root = root

    def span(self, template: Template, start: int, end: int) -> Span:
        """The place of ``template.source[start:end]``; the expression's or the template's own where only that is
        known.
        """
        node = self._nodes.get(template.span)
        if node is None:
            return template.span
        if template.source != node.text:  # "{{ item.age > 3 }}" may be written without its braces
            if template.source != f"{_BRACES}{node.text} }}}}":
                return template.span
            start, end = start - len(_BRACES), end - len(_BRACES)
        return span_in_scalar(self._source, node, start, end) or self._expression(node, start)

    def _expression(self, node: ScalarNode, start: int) -> Span:
        places = zip(expressions(node.text), node.expressions, strict=True)
        return next((span for (begin, end), span in places if begin <= start < end), node.span)

    @cached_property
    def _nodes(self) -> dict[Span, ScalarNode]:
        found = scalars(self._root) if self._root is not None else ()
        return {node.template_span or node.span: node for node in found}


def scalars(node: Node) -> Iterator[ScalarNode]:
    """Every value that is a scalar, in the order of the document; one behind an alias as often as it is used."""
    if isinstance(node, ScalarNode):
        yield node
        return
    children = node.items if isinstance(node, SequenceNode) else (item for _, item in node.entries)
    for child in children:
        yield from scalars(child)
