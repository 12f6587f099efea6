"""Find templates in Python code in place of an expression: ``total = {{ workload.total }}``.

In Python that is a set of a set, which always raises TypeError, so it can only be a template. It is replaced by the
literal of its value when the task is called (semantics.md 13a). Strings and comments are left alone, as ``{{`` may be
part of a format string.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from noetl_compiler.graph import Splice, Value
from noetl_compiler.nodes import ScalarNode
from noetl_compiler.python_code import number_offsets, parse_code, replace_with_numbers
from noetl_compiler.reading.scalar_positions import span_in_scalar
from noetl_compiler.report import Report
from noetl_compiler.source import expression_ranges, lone_expression
from noetl_compiler.syntax import ForeignText
from noetl_compiler.templating.truth import read_expression

__all__ = ["read_splices"]


def read_splices(texts: Iterable[ForeignText], report: Report) -> tuple[Splice, ...]:
    """Return the splices of a task's code, in order within each text."""
    return tuple(splice for text in texts for splice in _splices_of(text.field, text.node, report))


def _splices_of(field: str, node: ScalarNode, report: Report) -> Iterator[Splice]:
    for start, end in _template_ranges(node.text):
        span = span_in_scalar(report.source, node, start, end) or node.template_span or node.span
        yield Splice(field, start, end, Value(node.text[start:end], {"": span}))


def _template_ranges(code: str) -> tuple[tuple[int, int], ...]:
    """Return the ranges of templates in place of an expression: a number there is not a syntax error."""
    if "{{" not in code or lone_expression(code) is not None:
        return ()
    templates = tuple(template for template in expression_ranges(code) if _is_template(code[slice(*template)]))
    code_with_numbers = replace_with_numbers(code, templates)
    tree = parse_code(code_with_numbers) if templates else None
    if not isinstance(tree, ast.Module):
        return ()
    offsets = number_offsets(code_with_numbers, tree)
    return tuple((start, end) for start, end in templates if start + 1 in offsets)


def _is_template(text: str) -> bool:
    return text.startswith("{{") and text.endswith("}}") and read_expression(text) is not None
