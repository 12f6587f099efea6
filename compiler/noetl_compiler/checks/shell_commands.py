"""Templates in shell commands, whose values the shell interprets."""

from __future__ import annotations

import re

from noetl_compiler.checks.safe_templates import GENERATED_ID, NUMERIC_FILTERS, shown_value
from noetl_compiler.codes import Code
from noetl_compiler.dialects.foreign_code import is_go_template
from noetl_compiler.graph import Span
from noetl_compiler.nodes import ScalarNode
from noetl_compiler.reading.scalar_positions import span_in_scalar
from noetl_compiler.report import Report
from noetl_compiler.source import expression_ranges
from noetl_compiler.syntax import Playbook, Task
from noetl_compiler.syntax_queries import all_tasks

__all__ = ["warn_of_templates_in_commands"]

_HARMLESS = re.compile(
    rf"""{GENERATED_ID}
      | \|\s*(?:{NUMERIC_FILTERS})\s*-?\}}\}}
      | \{{\{{-?\s*(?:\d+|"[^"]*"|'[^']*')\s*-?\}}\}}       # a literal of the author""",
    re.ASCII | re.VERBOSE,
)
_LAST_NAME = re.compile(r"\{\{-?\s*(?:\w+\.)*(\w+)\s*-?\}\}", re.ASCII)


def warn_of_templates_in_commands(playbook: Playbook, report: Report) -> None:
    """Report NT515, once per task."""
    for task in all_tasks(playbook):
        if task.kind.text in report.tools and report.tools[task.kind.text].command_fields:
            _check_task(task, report)


def _check_task(task: Task, report: Report) -> None:
    templates = [(text.node, position) for text in task.texts for position in _unsafe_templates(text.node)]
    if not templates:
        return
    node, (start, end) = templates[0]
    others = f" ({len(templates)} such templates in this task)" if len(templates) > 1 else ""
    message = f"the value of the template becomes part of the command, so shell syntax in it is executed{others}"
    report.warning(Code.TEMPLATE_IN_COMMAND, _span(node, start, end, report), message, _remedy(node.text[start:end]))


def _unsafe_templates(node: ScalarNode) -> list[tuple[int, int]]:
    """Return the positions of expressions whose value may contain shell syntax."""
    text = node.text
    return [
        (start, end)
        for start, end in expression_ranges(text)
        if text.startswith("{{", start)
        and not is_go_template(text[start:end])
        and not _HARMLESS.search(text[start:end])
    ]


def _span(node: ScalarNode, start: int, end: int, report: Report) -> Span:
    return span_in_scalar(report.source, node, start, end) or node.template_span or node.span


def _remedy(template: str) -> str:
    match = _LAST_NAME.fullmatch(template)
    variable = match[1].upper() if match and not match[1][0].isdigit() else "VALUE"
    return f'write "${variable}" in the command, and env: {{{variable}: "{shown_value(template)}"}}'
