"""Read ``retry`` and ``call`` of a ``case`` rule: they repeat the call, possibly with other values.

After a failure that is a retry with delays; after a success, or with other values, the next page.
"""

from __future__ import annotations

import msgspec

from noetl_compiler.dialects.fields import Fields
from noetl_compiler.dialects.retry import warn_of_unbounded_pages
from noetl_compiler.dialects.routes import read_next
from noetl_compiler.dialects.values import amount, count, seconds
from noetl_compiler.graph import Span, Value
from noetl_compiler.language import defaults, keys
from noetl_compiler.language.tool_description import ToolDescription
from noetl_compiler.language.words import BACKOFFS, Backoff
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, value_of
from noetl_compiler.syntax import Arc

__all__ = ["Repeat", "read_call", "read_repeat"]

_CONFIG_FIELDS = frozenset(
    {"params", "url", "endpoint", "method", "headers", "body", "payload", "data", "query", "form"}
)


class Repeat(msgspec.Struct, frozen=True):
    """How a call is repeated. ``patch`` changes its configuration, ``rebind`` the names that it is rendered with."""

    span: Span
    attempts: Value | None = None
    delay: Value | None = None
    backoff: Backoff = "none"
    multiplier: float = defaults.MULTIPLIER
    max_delay: Value | None = None
    jitter: bool = False
    patch: Value | None = None
    rebind: Value | None = None

    @property
    def has_changes(self) -> bool:
        """Whether the next call differs from the last."""
        return self.patch is not None or self.rebind is not None


def read_repeat(fields: Fields, kind: str) -> Repeat | None:
    """Read ``retry: {...}``, ``retry: true`` or a number of calls."""
    node = fields.node_of("retry")
    if node is None:
        return None
    if isinstance(node, ScalarNode) and isinstance(node.value, bool | int):
        calls = None if isinstance(node.value, bool) else amount(node, fields.report)
        return Repeat(node.span, calls) if node.value else None
    mapping = fields.mapping("retry")
    return _read_changes(Fields(mapping, fields.report, "a retry"), kind) if mapping else None


def read_call(fields: Fields, kind: str) -> tuple[tuple[Arc, ...], Repeat | None]:
    """Read ``call: {step, args}``, a route to another step; without ``step`` it repeats this call."""
    node = fields.mapping("call")
    if node is None:
        return (), None
    if node.get("step") is None:
        return (), _read_changes(Fields(node, fields.report, "a call"), kind)
    route = read_next(node, fields.report)
    return tuple(arc for group in route.groups for arc in group) if route else (), None


def _read_changes(fields: Fields, kind: str) -> Repeat:
    report, tool_fields = fields.report, _config_fields(fields.report.tools.get(kind))
    attempts = count(fields.node_of("max_attempts", "attempts", "max_iterations"), report)
    delay = seconds(fields.node_of("initial_delay", "delay", "backoff_seconds"), report)
    multiplier = fields.number("backoff_multiplier", "multiplier")
    backoff = fields.choice("backoff", BACKOFFS)
    max_delay, jitter = seconds(fields.node_of("max_delay"), report), fields.flag("jitter")
    args = fields.mapping(*keys.INPUT)
    entries = (*(args.entries if args else ()), *fields.take_remaining(_CONFIG_FIELDS))
    fields.check_keys(("args", *_CONFIG_FIELDS))
    patch = _value(tuple(entry for entry in entries if entry[0].text in tool_fields), fields.span)
    rebind = _value(tuple(entry for entry in entries if entry[0].text not in tool_fields), fields.span)
    if attempts is None and (patch or rebind):
        warn_of_unbounded_pages(fields.span, "max_attempts", report)
    return Repeat(
        fields.span,
        attempts,
        delay,
        backoff or ("exponential" if multiplier is not None else "none"),
        multiplier or defaults.MULTIPLIER,
        max_delay,
        jitter or False,
        patch,
        rebind,
    )


def _config_fields(tool: ToolDescription | None) -> frozenset[str]:
    """Return the configuration fields of a tool; all other names are arguments of the call."""
    return tool.accepted_fields if tool else _CONFIG_FIELDS


def _value(entries: tuple[tuple[ScalarNode, Node], ...], span: Span) -> Value | None:
    return value_of(MappingNode(entries, span)) if entries else None
