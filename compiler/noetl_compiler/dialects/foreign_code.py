"""Texts in somebody else's language that carry ``{{``: are they templates of ours?

Python code is never a template: ``{{`` may stand in any f-string or nested dict of it. But the legacy engine
did render code, and some playbooks splice values into it: ``total = {{ workload.total }}``. In Python that
is a set in a set, which always fails at run time, so it can only be meant as a template.

Shell commands are templates, but they also carry Go templates for docker and kubectl: ``--format
"{{.ID}}"``. No Jinja expression begins with a dot, so a text whose every expression does is Go's.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator

from noetl_compiler.nodes import MappingNode, Node, SequenceNode, pointer
from noetl_compiler.source import expressions

__all__ = ["go_templates", "splices_values"]


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


def go_templates(node: Node, place: str) -> Iterator[str]:
    """The JSON pointers of the texts that are Go's, in a node which will stand at ``place``."""
    if isinstance(node, MappingNode):
        for key, item in node.entries:
            yield from go_templates(item, pointer(place, key.text))
    elif isinstance(node, SequenceNode):
        for index, item in enumerate(node.items):
            yield from go_templates(item, pointer(place, index))
    elif node.template_span and _is_go(node.text):
        yield place


def _is_go(text: str) -> bool:
    return all(text[start:end].lstrip("{-").lstrip().startswith(".") for start, end in expressions(text))
