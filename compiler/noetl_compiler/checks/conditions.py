"""Conditions that are constant, or yield something other than true or false."""

from __future__ import annotations

import re

from noetl_compiler.codes import Code
from noetl_compiler.graph import Span
from noetl_compiler.report import Report
from noetl_compiler.source import expression_ranges
from noetl_compiler.templates import TemplateFailure, predicate
from noetl_compiler.templating.check import TemplateFacts
from noetl_compiler.templating.template_sites import TemplateUse

__all__ = ["warn_of_wrong_condition"]


def warn_of_wrong_condition(use: TemplateUse, facts: TemplateFacts, report: Report) -> None:
    """NT305 and NT307. A literal ``true`` or ``{{ true }}`` is not reported."""
    source, span = use.template.source, use.template.span
    if not use.is_predicate or facts.problems or "{{" not in source or "{%" in source:
        return
    if _has_text(source):
        message = "the text around the expression makes this condition always true"
        report.warning(Code.CONSTANT_CONDITION, span, message, "put the whole condition inside the braces")
    elif not facts.reads and not _is_literal(source):
        message = f"this condition reads no variable, so it {_constant_result(source)}"
        report.warning(Code.CONSTANT_CONDITION, span, message, "read a value that can differ between runs")
    elif facts.reads:
        _warn_of_value(use, facts, report)


def _constant_result(source: str) -> str:
    try:
        return f"is always {'true' if predicate(source, {}).matched else 'false'}"
    except TemplateFailure as failure:
        return f"always fails: {failure.message}"


def _has_text(source: str) -> bool:
    position, around = 0, ""
    for start, end in expression_ranges(source):
        around, position = around + source[position:start], end
    return bool((around + source[position:]).strip())


def _is_literal(source: str) -> bool:
    """Whether the condition is ``true`` or ``false``."""
    return source.strip().removeprefix("{{").removesuffix("}}").strip("- \n").lower() in ("true", "false")


def _warn_of_value(use: TemplateUse, facts: TemplateFacts, report: Report) -> None:
    if len(expression_ranges(use.template.source)) > 1:
        message, hint = "several expressions yield text, not true or false", "join them with and, or"
        report.warning(Code.NOT_BOOLEAN, use.template.span, message, hint)
    for found in facts.non_boolean:
        span, message = use.template.span, f"this condition yields {found.what}, not true or false"
        if found.text:
            span, message = _span_of(found.text, use, report), f'the text "{found.text}" is always true here'
        report.warning(Code.NOT_BOOLEAN, span, message, "compare it with a value")


def _span_of(text: str, use: TemplateUse, report: Report) -> Span:
    """Return the span of a string constant, the last one if it occurs several times."""
    found = list(re.finditer(rf"(['\"]){re.escape(text)}\1", use.template.source))
    return report.places.span(use.template, *found[-1].span()) if found else use.template.span
