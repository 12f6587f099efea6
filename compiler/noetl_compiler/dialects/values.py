"""Read values, conditions, durations and assignments from YAML nodes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from noetl_compiler.codes import Code
from noetl_compiler.dialects.fields import Fields, kind_of
from noetl_compiler.dialects.text_conditions import as_single_template, compares_outside_braces
from noetl_compiler.graph import Assign, Json, Span, Template, Timeout, Value
from noetl_compiler.language.constructs.calls import TIMEOUTS
from noetl_compiler.language.names import RUN
from noetl_compiler.language.quantities import FALSE_WORDS, TRUE_WORDS, list_units, parse_duration, parse_number
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, value_of
from noetl_compiler.report import Report
from noetl_compiler.source import lone_expression
from noetl_compiler.templating.analysis import analyse_template
from noetl_compiler.value_merge import mapping_of, overlay

__all__ = [
    "amount",
    "assigns",
    "combine_conditions",
    "condition",
    "count",
    "expression",
    "forbid_negative",
    "mapping_value",
    "merged_mappings",
    "seconds",
    "timeout",
    "without_tojson",
]

_LAST_FILTER = re.compile(r"\s*\|\s*to_?json\s*(-?\}\}\s*)\Z")
_TARGET = re.compile(r"[^.\[\]]+(?:\.[^.\[\]]+)*(?:\[[*+|]?\])?")
_TIMEOUT_PARTS = TIMEOUTS.by_name.keys()


def mapping_value(node: Node | None, report: Report, key: str) -> Value:
    """Read a mapping as a Value, empty if absent. A lone template may render to the mapping at run time."""
    if node is None:
        return Value({})
    if not isinstance(node, MappingNode) and not (isinstance(node, ScalarNode) and node.template_span):
        report.error(Code.WRONG_TYPE, node.span, f'"{key}" must be a mapping, not {kind_of(node)}')
        return Value({})
    return value_of(node)


def merged_mappings(fields: Fields, keys: Iterable[str]) -> Value:
    """Read the mappings of several fields and merge them. Those of later keys take precedence."""
    merged = Value({})
    for key in keys:
        merged = overlay(merged, mapping_value(fields.node_of(key), fields.report, key))
    return merged


def condition(node: Node | None, report: Report) -> Template | None:
    """Read a predicate: ``"{{ ... }}"``, true or false. Report other text, whose truth is constant."""
    scalar = _expect_scalar(node, report, "a condition")
    if scalar is None:
        return None
    span = scalar.template_span
    if span is not None and compares_outside_braces(scalar.text):
        return _convert_comparison(scalar, span, report)
    if span is None and scalar.text.strip().lower() not in TRUE_WORDS | FALSE_WORDS:
        message = f'the condition "{scalar.text}" has no template, so it is a plain string'
        report.error(Code.WRONG_VALUE, scalar.span, message, "put the expression into {{ }}")
    return Template(scalar.text, span or scalar.span)


def combine_conditions(left: Template | None, right: Template | None) -> Template | None:
    """Combine two conditions with ``and``: the second is only evaluated if the first is true.

    If one is invalid, it is returned alone, so that its errors keep their positions.
    """
    if left is None or right is None:
        return left or right
    if invalid := next((template for template in (left, right) if analyse_template(template.source).problems), None):
        return invalid
    return Template(f"{{{{ ({_inner_expression(left)}) and ({_inner_expression(right)}) }}}}", left.span)


def _inner_expression(template: Template) -> str:
    expression = lone_expression(template.source)
    if expression is not None:
        return expression
    text = template.source.strip()
    lower_text = text.lower()
    return str(lower_text in TRUE_WORDS).lower() if lower_text in TRUE_WORDS | FALSE_WORDS else repr(text)


def _convert_comparison(node: ScalarNode, span: Span, report: Report) -> Template:
    source = as_single_template(node.text)
    if source is None:
        message = f'the condition "{node.text}" has a comparison outside the braces that cannot be parsed'
        report.error(Code.WRONG_VALUE, node.span, message, "put the whole expression into one pair of {{ }}")
    elif report.first_time("comparison outside the braces"):
        message = "a comparison outside the braces is read as if it were inside"
        report.warning(Code.DEPRECATED_FORM, node.span, message, f'write "{source}"')
    return Template(source or node.text, span)


def expression(node: Node | None, report: Report) -> Template | None:
    """Read an expression with or without braces: ``item.age > 3``."""
    scalar = _expect_scalar(node, report, "an expression")
    if scalar is None:
        return None
    if scalar.template_span is None:
        return Template(f"{{{{ {scalar.text} }}}}", scalar.span)
    return Template(scalar.text, scalar.template_span)


def _expect_scalar(node: Node | None, report: Report, expected: str) -> ScalarNode | None:
    if node is None or isinstance(node, ScalarNode):
        return node
    report.error(Code.WRONG_TYPE, node.span, f"expected {expected}, not {kind_of(node)}")
    return None


def amount(node: Node | None, report: Report, minimum: int = 0) -> Value | None:
    """Read a number of at least ``minimum``, or a template that renders to one."""
    if node is None:
        return None
    value = _number(node, report, parse_number, minimum)
    if value is None:
        report.error(Code.WRONG_TYPE, node.span, f"expected a number or a template, not {kind_of(node)}")
    return value


def count(node: Node | None, report: Report) -> Value | None:
    """Read a number of at least 1, or a template that renders to one."""
    return amount(node, report, minimum=1)


def seconds(node: Node | None, report: Report) -> Value | None:
    """Read a duration as seconds: ``30``, ``"30s"``, ``"500ms"``, ``"5m"``, or a template that renders to one."""
    if node is None:
        return None
    value = _number(node, report, parse_duration)
    if value is None:
        message = 'expected a duration such as 30 or "30s"'
        report.error(Code.WRONG_VALUE, node.span, message, "units are " + list_units('"'))
    return value


def _number(node: Node, report: Report, parse: Callable[[str], float | None], minimum: int = 0) -> Value | None:
    """Read a number, a template, or a string that ``parse`` accepts; None for anything else."""
    if not isinstance(node, ScalarNode):
        return None
    value = value_of(node) if node.template_span or _is_number(node.value) else Value(parse(node.text))
    if isinstance(value.data, int | float) and value.data < minimum:
        _report_below(node, minimum, report)
    return None if value.data is None else value


def timeout(node: Node | None, report: Report) -> Timeout | None:
    """Read a total duration, or ``{connect, read, total}``."""
    if not isinstance(node, MappingNode):
        total = seconds(node, report)
        return Timeout(total=total) if total else None
    parts = {key.text: seconds(item, report) for key, item in node.entries if key.text in _TIMEOUT_PARTS}
    for key, _ in node.entries:
        if key.text not in _TIMEOUT_PARTS:
            message = f'unknown key "{key.text}" in a timeout'
            report.error(Code.UNKNOWN_KEY, key.span, message, 'expected "connect", "read" or "total"')
    return Timeout(total=parts.get("total"), connect=parts.get("connect"), read=parts.get("read"))


def assigns(node: MappingNode | None, root: str, report: Report) -> tuple[Assign, ...]:
    """Read the entries of ``set``. A bare name is set below ``root``, which is ``ctx`` or ``iter``; ``step.x`` means
    ``ctx.x``.
    """
    if node is None:
        return ()
    return tuple(_assign(key, item, root, report) for key, item in node.entries)


def _assign(key: ScalarNode, item: Node, root: str, report: Report) -> Assign:
    head, dot, tail = key.text.partition(".")
    if not _TARGET.fullmatch(key.text):
        report.error(Code.WRONG_VALUE, key.span, f'"{key.text}" is not a valid name to set')
    target = key.text if dot and head in ("ctx", "iter") else f"{root}.{key.text}"
    if dot and head == "step":
        target = f"ctx.{tail}"
    if head in RUN and target != key.text:
        message = f'"{head}" cannot be set: this sets {target}'
        report.warning(Code.WRONG_VALUE, key.span, message, f"write {target}, or choose another name")
    return Assign(target, value_of(item), Span(key.span.line, key.span.col, item.span.end_line, item.span.end_col))


def forbid_negative(node: ScalarNode, report: Report) -> None:
    """Report NT106 for a negative number."""
    if isinstance(node.value, int | float) and node.value < 0:
        _report_below(node, 0, report)


def _report_below(node: ScalarNode, minimum: int, report: Report) -> None:
    report.error(Code.WRONG_VALUE, node.span, f'"{node.text}" is below {minimum}', f"write {minimum} or more")


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def without_tojson(arguments: Value) -> Value:
    """Remove ``tojson`` from arguments that are a single template.

    Before v10 the engine parsed rendered text that was JSON, so the code received the value itself.
    """
    return Value({name: _strip_tojson(text) for name, text in mapping_of(arguments).items()}, arguments.templates)


def _strip_tojson(data: Json) -> Json:
    if not isinstance(data, str) or not data.startswith("{{") or data.count("{{") != 1:
        return data
    return _LAST_FILTER.sub(r" \1", data)
