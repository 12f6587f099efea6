"""SQL that does not parse, and templates inside quotes."""

from __future__ import annotations

import re

from noetl_compiler.checks.safe_templates import GENERATED_ID, NUMERIC_FILTERS, shown_value
from noetl_compiler.codes import Code
from noetl_compiler.language.tools import SQL_LANGUAGES
from noetl_compiler.nodes import ScalarNode
from noetl_compiler.reading.scalar_positions import span_in_scalar
from noetl_compiler.report import Report
from noetl_compiler.sql_syntax import find_syntax_error, quoted_templates
from noetl_compiler.syntax import Playbook
from noetl_compiler.syntax_queries import all_tasks

__all__ = ["check_sql", "check_sql_text"]

_HARMLESS = re.compile(rf"{GENERATED_ID}|\|\s*(?:{NUMERIC_FILTERS}|replace|tojson)\b", re.ASCII)
"""Templates whose values contain no quotes, or that escape them."""


def check_sql(playbook: Playbook, report: Report) -> None:
    """Report NT510 and NT511, once per text."""
    for task in all_tasks(playbook):
        if task.kind.text in SQL_LANGUAGES:
            for text in task.texts:
                check_sql_text(text.node, task.kind.text, report)


def check_sql_text(node: ScalarNode, kind: str, report: Report) -> None:
    """Check one text; ``report`` is that of the file that contains it."""
    error = find_syntax_error(node.text, kind)
    if error is not None:
        span = span_in_scalar(report.source, node, error.start, error.end) or node.span
        near = node.text[error.start : error.end]
        message = f'syntax error in SQL near "{near}"' if near else "a quote or comment in SQL is not closed"
        hint = f"parsed as {SQL_LANGUAGES[kind][0]} by sqlglot, which does not support all of it"
        report.warning(Code.SQL_SYNTAX, span, message, hint)
    elif node.template_span is not None:
        _warn_of_quoted_templates(node, kind, report)


def _warn_of_quoted_templates(node: ScalarNode, kind: str, report: Report) -> None:
    unsafe_templates = [
        template
        for template in quoted_templates(node.text, kind)
        if not _HARMLESS.search(node.text[template.start : template.end])
    ]
    if not unsafe_templates:
        return
    first = unsafe_templates[0]
    span = span_in_scalar(report.source, node, first.start, first.end) or node.span
    others = f" ({len(unsafe_templates)} such templates in this text)" if len(unsafe_templates) > 1 else ""
    message = f"the template is inside quotes, so a value that contains a quote changes the statement{others}"
    remedy = f'write {SQL_LANGUAGES[kind][1]} without quotes, and params: ["{shown_value(first.text)}"]'
    hint = remedy if first.is_alone else f"{remedy}; params need one statement in the task"
    report.warning(Code.QUOTED_TEMPLATE, span, message, hint)
