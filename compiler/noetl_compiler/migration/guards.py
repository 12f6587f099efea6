"""Guards in v10: the conditions of tasks, sinks and assignments on entering a step."""

from __future__ import annotations

from noetl_compiler.graph import EnterRule, Guard
from noetl_compiler.language.constructs.sinks import GUARD
from noetl_compiler.language.constructs.steps import ENTER
from noetl_compiler.migration.context import MigrationContext
from noetl_compiler.migration.entries import Entries
from noetl_compiler.migration.source_lookup import NO_SPAN, SourceMapping, scalar
from noetl_compiler.migration.values import emit_assigns, emit_condition
from noetl_compiler.nodes import MappingNode, Node, SequenceNode

__all__ = ["emit_enter", "emit_guard"]


def emit_guard(context: MigrationContext, outer: SourceMapping, guard: Guard | None) -> MappingNode | None:
    """Return a guard as ``{on_status, when, unless}``."""
    if guard is None:
        return None
    unless = tuple(scalar(condition.source) for condition in guard.unless)  # each has its span where it is a condition
    entries = Entries(context, GUARD, outer, outer.span)
    entries.add_scalar("on_status", guard.on_status, key_span=NO_SPAN)
    entries.add_node("when", emit_condition(guard.when), key_span=NO_SPAN)
    entries.add_node("unless", SequenceNode(unless, NO_SPAN) if unless else None, key_span=NO_SPAN)
    return entries.mapping()


def emit_enter(context: MigrationContext, outer: SourceMapping, rules: tuple[EnterRule, ...]) -> Node | None:
    """Return ``enter`` of a step's spec, a list of ``{guard, set}``."""
    nodes = tuple(_enter_rule(context, outer, rule) for rule in rules)
    return SequenceNode(nodes, NO_SPAN) if nodes else None


def _enter_rule(context: MigrationContext, outer: SourceMapping, rule: EnterRule) -> MappingNode:
    origin = context.source_lookup.mapping_at(rule.span, outer)
    entries = Entries(context, ENTER, origin, rule.span)
    entries.add_node("guard", emit_guard(context, origin, rule.guard), key_span=rule.span)
    entries.add_node("set", emit_assigns(context, origin, rule.set))
    return entries.mapping()
