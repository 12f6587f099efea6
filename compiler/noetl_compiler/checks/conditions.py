"""Conditions that are constant, or yield something other than true or false."""

from __future__ import annotations

import re

from noetl_compiler.codes import Code
from noetl_compiler.graph import Span
from noetl_compiler.report import Report
from noetl_compiler.source import expression_ranges, lone_expression
from noetl_compiler.templates import TemplateFailure, predicate
from noetl_compiler.templating.analysis import TemplateAnalysis
from noetl_compiler.templating.template_uses import TemplateUse

__all__ = ["warn_of_wrong_condition"]


def warn_of_wrong_condition(use: TemplateUse, analysis: TemplateAnalysis, report: Report) -> None:
    """Report NT305 and NT307. A literal ``true`` or ``{{ true }}`` is not reported."""
    source, span = use.template.source, use.template.span
    if not use.is_predicate or analysis.problems or "{{" not in source or "{%" in source:
        return
    if _has_text_outside(source):
        message = "the text around the expression makes this condition always true"
        report.warning(Code.CONSTANT_CONDITION, span, message, "put the whole condition inside the braces")
    elif not analysis.read_paths and not _is_literal(source):
        message = f"this condition reads no variable, so it {_constant_result(source)}"
        report.warning(Code.CONSTANT_CONDITION, span, message, "read a value that can differ between runs")
    elif analysis.read_paths:
        _warn_of_non_boolean(use, analysis, report)


def _constant_result(source: str) -> str:
    try:
        return f"is always {'true' if predicate(source, {}).matched else 'false'}"
    except TemplateFailure as failure:
        return f"always fails: {failure.message}"


def _has_text_outside(source: str) -> bool:
    position, outside = 0, ""
    for start, end in expression_ranges(source):
        outside, position = outside + source[position:start], end
    return bool((outside + source[position:]).strip())


def _is_literal(source: str) -> bool:
    """Whether the condition is ``true`` or ``false``."""
    return (lone_expression(source) or "").lower() in ("true", "false")


def _warn_of_non_boolean(use: TemplateUse, analysis: TemplateAnalysis, report: Report) -> None:
    if len(expression_ranges(use.template.source)) > 1:
        message, hint = "several expressions yield a string, not true or false", "join them with and, or"
        report.warning(Code.NOT_BOOLEAN, use.template.span, message, hint)
    for constant in analysis.non_boolean:
        span, message = use.template.span, f"this condition yields {constant.description}, not true or false"
        if constant.text:
            span = _span_of_string(constant.text, use, report)
            message = f'the string "{constant.text}" is always true here'
        report.warning(Code.NOT_BOOLEAN, span, message, "compare it with a value")


def _span_of_string(text: str, use: TemplateUse, report: Report) -> Span:
    """Return the span of a string constant; if it occurs several times, that of the last one."""
    matches = list(re.finditer(rf"(['\"]){re.escape(text)}\1", use.template.source))
    return report.locator.span(use.template, *matches[-1].span()) if matches else use.template.span
