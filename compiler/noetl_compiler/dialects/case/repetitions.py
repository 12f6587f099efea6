"""Read ``retry`` and ``call`` of a ``case`` rule, which repeat the call of the step.

After a failure, the same call is retried with delays. After a success, or if the action changes fields or arguments,
the repeated call is the next page.
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

__all__ = ["CallRepetition", "read_call_action", "read_retry_action"]

_CONFIG_FIELDS = frozenset(
    {"params", "url", "endpoint", "method", "headers", "body", "payload", "data", "query", "form"}
)


class CallRepetition(msgspec.Struct, frozen=True):
    """The repetition of a call. ``attempts`` is the maximum number of calls. ``patch`` changes the config of the next
    call, ``rebind`` its arguments.
    """

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


def read_retry_action(fields: Fields, kind: str) -> CallRepetition | None:
    """Read ``retry: {...}``, ``retry: true`` or a number of calls."""
    node = fields.node_of("retry")
    if node is None:
        return None
    if isinstance(node, ScalarNode) and isinstance(node.value, bool | int):
        calls = None if isinstance(node.value, bool) else amount(node, fields.report)
        return CallRepetition(node.span, calls) if node.value else None
    mapping = fields.mapping("retry")
    return _read_repetition(Fields(mapping, fields.report, "a retry"), kind) if mapping else None


def read_call_action(fields: Fields, kind: str) -> tuple[tuple[Arc, ...], CallRepetition | None]:
    """Read ``call``. ``{step, args}`` is a route to another step; ``{args}`` repeats this call."""
    node = fields.mapping("call")
    if node is None:
        return (), None
    if node.get("step") is None:
        return (), _read_repetition(Fields(node, fields.report, "a call"), kind)
    route = read_next(node, fields.report)
    return tuple(arc for group in route.groups for arc in group) if route else (), None


def _read_repetition(fields: Fields, kind: str) -> CallRepetition:
    report, tool_fields = fields.report, _config_fields(fields.report.tools.get(kind))
    attempts = count(fields.node_of("max_attempts", "attempts", "max_iterations"), report)
    delay = seconds(fields.node_of("initial_delay", "delay", "backoff_seconds"), report)
    multiplier = fields.number("backoff_multiplier", "multiplier")
    backoff = fields.choice("backoff", BACKOFFS)
    max_delay, jitter = seconds(fields.node_of("max_delay"), report), fields.flag("jitter")
    args = fields.mapping(*keys.INPUT)
    entries = (*(args.entries if args else ()), *fields.take_remaining(_CONFIG_FIELDS))
    fields.check_keys(("args", *_CONFIG_FIELDS))
    patch = _mapping_value(tuple(entry for entry in entries if entry[0].text in tool_fields), fields.span)
    rebind = _mapping_value(tuple(entry for entry in entries if entry[0].text not in tool_fields), fields.span)
    if attempts is None and (patch or rebind):
        warn_of_unbounded_pages(fields.span, "max_attempts", report)
    return CallRepetition(
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


def _mapping_value(entries: tuple[tuple[ScalarNode, Node], ...], span: Span) -> Value | None:
    return value_of(MappingNode(entries, span)) if entries else None
