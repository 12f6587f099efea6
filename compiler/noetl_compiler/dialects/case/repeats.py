"""Read ``retry`` and ``call`` of a ``case`` rule: they repeat the call, possibly with other values.

After a failure that is a retry with delays; after a success, or with other values, the next page.
"""

from __future__ import annotations

import msgspec

from noetl_compiler.dialects.fields import Fields
from noetl_compiler.dialects.retry import warn_of_unbounded_pages
from noetl_compiler.dialects.routes import read_next
from noetl_compiler.dialects.values import amount, seconds
from noetl_compiler.graph import Span, Value
from noetl_compiler.language import defaults, keys
from noetl_compiler.language.tool_description import ToolDescription
from noetl_compiler.language.words import BACKOFFS, Backoff
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, value_of
from noetl_compiler.syntax import Arc

__all__ = ["Repeat", "read_call", "read_repeat"]

_CONFIG = frozenset({"params", "url", "endpoint", "method", "headers", "body", "payload", "data", "query", "form"})


class Repeat(msgspec.Struct, frozen=True):
    """The changes of a call that is repeated.

    ``patch`` changes the call's configuration, ``rebind`` the names that it is rendered with.
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
    def changes(self) -> bool:
        """Whether the next call differs from the last."""
        return self.patch is not None or self.rebind is not None


def read_repeat(fields: Fields, kind: str) -> Repeat | None:
    """Read ``retry: {...}``, ``retry: true`` or a number of calls."""
    found = fields.node_of("retry")
    if found is None:
        return None
    if isinstance(found, ScalarNode) and isinstance(found.value, bool | int):
        calls = None if isinstance(found.value, bool) else amount(found, fields.report)
        return Repeat(found.span, calls) if found.value else None
    node = fields.mapping("retry")
    return _read(Fields(node, fields.report, "a retry"), kind) if node else None


def read_call(fields: Fields, kind: str) -> tuple[tuple[Arc, ...], Repeat | None]:
    """Read ``call: {step, args}``, which leads to another step; without ``step`` it repeats this call."""
    node = fields.mapping("call")
    if node is None:
        return (), None
    if node.get("step") is None:
        return (), _read(Fields(node, fields.report, "a call"), kind)
    following = read_next(node, fields.report)
    return tuple(arc for group in following.groups for arc in group) if following else (), None


def _read(fields: Fields, kind: str) -> Repeat:
    report, own = fields.report, _config_names(fields.report.tools.get(kind))
    attempts = amount(fields.node_of("max_attempts", "attempts", "max_iterations"), report)
    delay = seconds(fields.node_of("initial_delay", "delay", "backoff_seconds"), report)
    multiplier = fields.number("backoff_multiplier", "multiplier")
    backoff = fields.choice("backoff", BACKOFFS)
    limit, jitter = seconds(fields.node_of("max_delay"), report), fields.flag("jitter")
    args = fields.mapping(*keys.INPUT)
    entries = (*(args.entries if args else ()), *fields.rest(_CONFIG))
    fields.close(("args", *_CONFIG))
    patch = _value(tuple(entry for entry in entries if entry[0].text in own), fields.span)
    rebind = _value(tuple(entry for entry in entries if entry[0].text not in own), fields.span)
    if attempts is None and (patch or rebind):
        warn_of_unbounded_pages(fields.span, "max_attempts", report)
    return Repeat(
        fields.span,
        attempts,
        delay,
        backoff or ("exponential" if multiplier is not None else "none"),
        multiplier or defaults.MULTIPLIER,
        limit,
        jitter or False,
        patch,
        rebind,
    )


def _config_names(tool: ToolDescription | None) -> frozenset[str]:
    """Return the configuration fields of a tool; all other names are arguments of the call."""
    return tool.accepted if tool else _CONFIG


def _value(entries: tuple[tuple[ScalarNode, Node], ...], span: Span) -> Value | None:
    return value_of(MappingNode(entries, span)) if entries else None
