"""Conditions that decide nothing, and such as give something else than true or false."""

from __future__ import annotations

import re

from jinja2 import nodes

from noetl_compiler.codes import Code
from noetl_compiler.graph import Span
from noetl_compiler.report import Report
from noetl_compiler.source import expressions
from noetl_compiler.templates import TemplateFailure, predicate
from noetl_compiler.templating.check import Facts
from noetl_compiler.templating.truth import lone_expression
from noetl_compiler.templating.uses import Use

__all__ = ["warn_of_odd_condition"]

_ARITHMETIC = (nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod, nodes.Pow, nodes.Neg, nodes.Pos)


def warn_of_odd_condition(use: Use, facts: Facts, report: Report) -> None:
    """NT305 and NT307. ``true`` and ``{{ true }}`` say what they mean and are none."""
    source, span = use.template.source, use.template.span
    if not use.is_predicate or facts.problems or "{{" not in source or "{%" in source:
        return
    if _has_text(source):
        message = "the text around the expression makes this condition always true"
        report.warning(Code.CONSTANT_CONDITION, span, message, "put all of it into the braces")
    elif not facts.reads and not _is_plain(source):
        message = f"this condition reads nothing, so it {_answer(source)}"
        report.warning(Code.CONSTANT_CONDITION, span, message, "compare something the run decides")
    elif facts.reads:
        _warn_of_value(use, report)


def _answer(source: str) -> str:
    try:
        return f"is always {'true' if predicate(source, {}).matched else 'false'}"
    except TemplateFailure as failure:
        return f"always fails: {failure.message}"


def _has_text(source: str) -> bool:
    position, around = 0, ""
    for start, end in expressions(source):
        around, position = around + source[position:start], end
    return bool((around + source[position:]).strip())


def _is_plain(source: str) -> bool:
    """Whether nothing but ``true`` or ``false`` stands there."""
    return source.strip().removeprefix("{{").removesuffix("}}").strip("- \n").lower() in ("true", "false")


def _warn_of_value(use: Use, report: Report) -> None:
    expression = lone_expression(use.template.source)
    if expression is None:
        message, hint = "several expressions together give a text, not true or false", "join them with and, or"
        report.warning(Code.NOT_BOOLEAN, use.template.span, message, hint)
        return
    for part in _alternatives(expression):
        if isinstance(part, nodes.Const) and isinstance(part.value, str) and part is not expression:
            message = f'"{part.value}" alone counts as true here'
            report.warning(Code.NOT_BOOLEAN, _place(part.value, use, report), message, "compare it with something")
        elif what := _other_than_boolean(part):
            message = f"this condition gives {what}, not true or false"
            report.warning(Code.NOT_BOOLEAN, use.template.span, message, "compare it with something")


def _alternatives(node: nodes.Expr) -> list[nodes.Expr]:
    """The expressions one of which a condition comes to."""
    match node:
        case nodes.And() | nodes.Or():
            return [*_alternatives(node.left), *_alternatives(node.right)]
        case nodes.Not():
            return _alternatives(node.node)
        case nodes.CondExpr():
            return [*_alternatives(node.expr1), *(_alternatives(node.expr2) if node.expr2 else ())]
        case _:
            return [node]


def _other_than_boolean(node: nodes.Expr) -> str:
    """What an expression surely gives; "" when it may be true or false, or one may ask whether it is empty."""
    match node:
        case nodes.Concat():
            return "a text"
        case nodes.List() | nodes.Tuple():
            return "a list"
        case nodes.Dict():
            return "a mapping"
        case nodes.Const(value=int() | float()) if not isinstance(node.value, bool):
            return "a number"
        case _ if isinstance(node, _ARITHMETIC):
            return "the result of a calculation"
        case _:
            return ""


def _place(text: str, use: Use, report: Report) -> Span:
    """Where a constant stands, the last of several."""
    found = list(re.finditer(rf"(['\"]){re.escape(text)}\1", use.template.source))
    return report.places.span(use.template, *found[-1].span()) if found else use.template.span
