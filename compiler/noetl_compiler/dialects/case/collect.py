"""Read ``collect`` of a ``case`` rule, which has two forms.

``{from, into, mode}`` is an assignment: it appends a value to a list each time the rule matches. ``{strategy, path,
into}`` collects the pages of a repeated call, and is part of the rule that repeats the call. If no rule of the step
repeats it, the second form is an assignment, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from noetl_compiler.codes import Code
from noetl_compiler.dialects.collect import read_collect
from noetl_compiler.dialects.fields import Fields
from noetl_compiler.graph import Assign, Collect, Span, Value
from noetl_compiler.language.words import COLLECT_MODES, CollectMode, Strategy
from noetl_compiler.nodes import MappingNode, ScalarNode
from noetl_compiler.report import Report
from noetl_compiler.source import lone_expression

__all__ = ["as_assignment", "read_collect_action"]

_SUFFIXES: Mapping[CollectMode, str] = MappingProxyType({"append": "[]", "extend": "[*]", "replace": ""})
_MODES: Mapping[Strategy, CollectMode] = MappingProxyType(
    {"append": "extend", "collect": "append", "replace": "replace"}
)


def read_collect_action(fields: Fields) -> tuple[tuple[Assign, ...], Collect | None]:
    """Read either form. Returns the assignments of the first, or the Collect of the second."""
    node = fields.node_of("collect")
    if isinstance(node, MappingNode) and node.get("from") is not None:
        return _read_collected_value(Fields(node, fields.report, "collect")), None
    return (), read_collect(fields)


def as_assignment(collect: Collect, span: Span, report: Report) -> Assign | None:
    """Convert a Collect to an assignment, for a step that calls once."""
    mode = _MODES.get(collect.strategy)
    if mode is None:
        message = f'"{collect.strategy}" merges the pages of repeated calls, but no rule of this step repeats its call'
        report.error(Code.WRONG_VALUE, span, message, 'use "append" or "replace"')
        return None
    expression = f"response.{collect.path}" if collect.path else "response"
    return _assignment(collect.into, expression, mode, span)


def _read_collected_value(fields: Fields) -> tuple[Assign, ...]:
    source, into = fields.scalar("from"), fields.required_name("into")
    mode = fields.choice("mode", COLLECT_MODES) or "append"
    fields.check_keys()
    if source is None or into is None:
        return ()
    return (_assignment(into.text, _expression_of(source), mode, source.template_span or source.span),)


def _assignment(into: str, expression: str, mode: CollectMode, span: Span) -> Assign:
    name = into.removeprefix("ctx.").removeprefix("vars.")
    return Assign(f"ctx.{name}{_SUFFIXES[mode]}", Value(f"{{{{ {expression} }}}}", {"": span}), span)


def _expression_of(node: ScalarNode) -> str:
    """Return the expression of a path or a lone template; any other text becomes a string literal."""
    text = node.text.strip()
    if node.template_span is None:
        return text
    expression = lone_expression(text)
    return repr(text) if expression is None else expression
