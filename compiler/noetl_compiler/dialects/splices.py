"""Templates in Python code where an expression is expected: ``total = {{ workload.total }}``.

In Python that is a set in a set, which always fails, so it can only be meant as a template. The literal of its value
takes its place when the task is called (semantics.md 13a). In a string or a comment nothing is replaced: ``{{`` may be
part of any format string.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from noetl_compiler.graph import Splice, Value
from noetl_compiler.nodes import ScalarNode
from noetl_compiler.python_code import number_places, parsed, with_numbers
from noetl_compiler.reading.scalar_places import span_in_scalar
from noetl_compiler.report import Report
from noetl_compiler.source import expressions
from noetl_compiler.syntax import ForeignText
from noetl_compiler.templating.truth import read_expression

__all__ = ["is_one_template", "read_splices"]


def is_one_template(code: str) -> bool:
    """Whether the value of a template is the code itself."""
    return expressions(code.strip()) == ((0, len(code.strip())),) and code.strip().startswith("{{")


def read_splices(texts: Iterable[ForeignText], report: Report) -> tuple[Splice, ...]:
    """The splices of a task's code, those of a text in their order."""
    return tuple(splice for text in texts for splice in _of_text(text.field, text.node, report))


def _of_text(field: str, node: ScalarNode, report: Report) -> Iterator[Splice]:
    for start, end in _ranges(node.text):
        span = span_in_scalar(report.source, node, start, end) or node.template_span or node.span
        yield Splice(field, start, end, Value(node.text[start:end], {"": span}))


def _ranges(code: str) -> tuple[tuple[int, int], ...]:
    """Where templates stand that a number could stand for."""
    if "{{" not in code or is_one_template(code):
        return ()
    found = tuple(one for one in expressions(code) if _is_template(code[slice(*one)]))
    filled = with_numbers(code, found)
    tree = parsed(filled) if found else None
    if not isinstance(tree, ast.Module):
        return ()
    places = number_places(filled, tree)
    return tuple((start, end) for start, end in found if start + 1 in places)


def _is_template(text: str) -> bool:
    return text.startswith("{{") and text.endswith("}}") and read_expression(text) is not None
