"""Values that occur in many constructs: conditions, durations, assignments."""

from __future__ import annotations

from noetl_compiler.dialects.auth import has_alias
from noetl_compiler.graph import Assign, Template, Timeout, Value
from noetl_compiler.language import keys
from noetl_compiler.language.quantities import parse_duration
from noetl_compiler.migration.context import MigrationContext, mapping
from noetl_compiler.migration.extensions import SET_ADD, SET_LIST
from noetl_compiler.migration.source_lookup import NO_SPAN, SourceMapping, scalar
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode

__all__ = ["emit_assigns", "emit_auth", "emit_condition", "emit_duration", "emit_names", "emit_timeout", "emit_value"]


def emit_value(origin: SourceMapping, value: Value | None, name: str, *older: str) -> Node | None:
    """Return the node of an optional value; None without a value."""
    return origin.node(value, name, *older) if value else None


def emit_auth(origin: SourceMapping, auth: Value | None, kind: str) -> Node | None:
    """Return a credential. A mapping that would be read as an alias with fields is nested under an alias."""
    credential = emit_value(origin, auth, *keys.AUTH)
    if isinstance(credential, MappingNode) and has_alias(credential, kind):
        return mapping((scalar("auth"), credential))
    return credential


def emit_names(origin: SourceMapping, value: Value, name: str, *older: str) -> Node | None:
    """Return a mapping of names to values; None if it is empty."""
    return origin.node(value, name, *older) if value.data else None


def emit_condition(when: Template | None) -> ScalarNode | None:
    """Return a condition as a scalar; None if there is none."""
    return scalar(when.source, when.span) if when else None


def emit_duration(origin: SourceMapping, value: Value | None, name: str, *older: str) -> Node | None:
    """Return a duration in its original style; a float that the original does not have gets a unit."""
    if value is None or not isinstance(value.data, float) or origin.original_node(value.data, name, *older):
        return emit_value(origin, value, name, *older)
    original = origin.text(name, *older)
    return origin.scalar(original if parse_duration(original) == value.data else _with_unit(value.data), name, *older)


def _with_unit(seconds: float) -> str | float:
    text = repr(int(seconds) if seconds.is_integer() else seconds)
    return f"{text}s" if parse_duration(text) == seconds else seconds


def emit_timeout(origin: SourceMapping, limit: Timeout | None) -> Node | None:
    """Return a timeout: its total, or ``{connect, read, total}``."""
    if limit is None:
        return None
    total = emit_duration(origin, limit.total, "timeout", "total", "timeout_seconds", "timeout_s", "deadline_s")
    parts = mapping(
        (origin.key("connect"), emit_duration(origin, limit.connect, "connect")),
        (origin.key("read"), emit_duration(origin, limit.read, "read")),
        (origin.key("total"), total),
        span=origin.mapping_span("timeout"),
    )
    return total if total and len(parts.entries) == 1 else parts


def emit_assigns(context: MigrationContext, origin: SourceMapping, assigns: tuple[Assign, ...]) -> Node | None:
    """Return ``set``, with the root of each target. If a target is set twice, it is a list, which is read in order."""
    groups: list[dict[str, Assign]] = [{}]
    for assign in assigns:
        if assign.target in groups[-1]:
            groups.append({})
        groups[-1][assign.target] = assign
    if any(assign.target.endswith("]") for assign in assigns):
        context.note_extension(SET_ADD, origin.span)
    if len(groups) > 1:
        context.note_extension(SET_LIST, assigns[0].span)
    nodes = [_assignments(origin, tuple(group.values())) for group in groups if group]
    return nodes[0] if len(nodes) == 1 else SequenceNode(tuple(nodes), NO_SPAN) if nodes else None


def _assignments(origin: SourceMapping, assigns: tuple[Assign, ...]) -> MappingNode:
    entries = ((scalar(assign.target, assign.span), _assigned_value(origin, assign)) for assign in assigns)
    return MappingNode(tuple(entries), origin.mapping_span("set", "set_ctx", "set_iter", "vars"))


def _assigned_value(origin: SourceMapping, assign: Assign) -> Node:
    name = assign.target.partition(".")[2]
    return origin.node(assign.value, assign.target, name, f"step.{name}")
