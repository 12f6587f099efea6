"""Conditions that decide nothing."""

from __future__ import annotations

from noetl_compiler.codes import Code
from noetl_compiler.report import Report
from noetl_compiler.source import expressions
from noetl_compiler.templates import predicate
from noetl_compiler.templating.check import Facts
from noetl_compiler.templating.uses import Use

__all__ = ["warn_of_constant_condition"]


def warn_of_constant_condition(use: Use, facts: Facts, report: Report) -> None:
    """NT305. ``true`` and ``{{ true }}`` say what they mean and are none."""
    source = use.template.source
    if not use.is_predicate or facts.problems or "{{" not in source or "{%" in source:
        return
    if _has_text(source):
        message = "the text around the expression makes this condition always true"
        report.warning(Code.CONSTANT_CONDITION, use.template.span, message, "put all of it into the braces")
    elif not facts.reads and not _is_plain(source):
        answer = "true" if predicate(source, {}).matched else "false"
        message = f"this condition reads nothing, so it is always {answer}"
        report.warning(Code.CONSTANT_CONDITION, use.template.span, message, "compare something the run decides")


def _has_text(source: str) -> bool:
    position, around = 0, ""
    for start, end in expressions(source):
        around, position = around + source[position:start], end
    return bool((around + source[position:]).strip())


def _is_plain(source: str) -> bool:
    """Whether nothing but ``true`` or ``false`` stands there."""
    return source.strip().removeprefix("{{").removesuffix("}}").strip("- \n").lower() in ("true", "false")
