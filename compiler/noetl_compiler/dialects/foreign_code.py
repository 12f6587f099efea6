"""Texts in somebody else's language that carry ``{{``: are they templates of ours?

Python code is never a template: ``{{`` may stand in any f-string or nested dict of it. But the legacy engine
did render code, and some playbooks splice values into it: ``total = {{ workload.total }}``. In Python that
is a set in a set, which always fails at run time, so it can only be meant as a template.

Shell commands are templates, but they also carry Go templates for docker and kubectl: ``--format
"{{.ID}}"``. No Jinja expression begins with a dot, so a text whose every expression does is Go's.
"""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import replace

from noetl_compiler.nodes import MappingNode, Node, SequenceNode
from noetl_compiler.source import expressions

__all__ = ["splices_values", "with_go_quoted"]

_GO = re.compile(r"\{\{-?\s*\.")


def splices_values(code: str) -> bool:
    """Whether Python code has ``{{ name }}`` where an expression is expected."""
    if "{{" not in code:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(_is_set_of_set(node) for node in ast.walk(tree))


def _is_set_of_set(node: ast.AST) -> bool:
    return isinstance(node, ast.Set) and len(node.elts) == 1 and isinstance(node.elts[0], ast.Set)


def with_go_quoted(node: Node) -> Node:
    """The node with every Go template in it written as a string of ours: ``{{ "{{.ID}}" }}``."""
    if isinstance(node, MappingNode):
        return MappingNode(tuple((key, with_go_quoted(item)) for key, item in node.entries), node.span)
    if isinstance(node, SequenceNode):
        return SequenceNode(tuple(with_go_quoted(item) for item in node.items), node.span)
    if node.template_span is None or "{{" not in node.text:
        return node
    text = _quoted(node.text)
    return node if text == node.text else replace(node, text=text, value=text)


def _quoted(text: str) -> str:
    parts: list[str] = []
    position = 0
    for start, end in expressions(text):
        found = text[start:end]
        parts += [text[position:start], _jinja_string(found) if _GO.match(found) else found]
        position = end
    return "".join((*parts, text[position:]))


def _jinja_string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'{{{{ "{escaped}" }}}}'
