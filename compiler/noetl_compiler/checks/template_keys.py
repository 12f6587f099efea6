"""Templates in the keys of mappings, which are not rendered: only values are."""

from __future__ import annotations

import re
from collections.abc import Iterator

from noetl_compiler.codes import Code
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook

__all__ = ["warn_of_template_keys"]

_MAY_BE_KEY = re.compile(r"[}%]\}[^\n]*?[\"']?[ ]*:")
"""A quick test of the source text: only documents that match are searched."""


def warn_of_template_keys(playbook: Playbook, report: Report) -> None:  # noqa: ARG001 - the same for every check
    """Report NT310."""
    if report.root is None or _MAY_BE_KEY.search(report.source.text) is None:
        return
    for key in _template_keys(report.root):
        message = f'the key "{key.text}" is not a template: only values are'
        hint = 'write the mapping as one template, such as "{{ {name: value} }}"'
        report.warning(Code.TEMPLATE_KEY, key.span, message, hint)


def _template_keys(node: Node) -> Iterator[ScalarNode]:
    if isinstance(node, MappingNode):
        for key, item in node.entries:
            if key.expressions:
                yield key
            yield from _template_keys(item)
    elif isinstance(node, SequenceNode):
        for item in node.items:
            yield from _template_keys(item)
