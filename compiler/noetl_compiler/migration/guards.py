"""Guards in v10: the conditions of tasks, sinks and assignments on entering a step."""

from __future__ import annotations

from noetl_compiler.graph import EnterRule, Guard
from noetl_compiler.language.constructs.sinks import GUARD
from noetl_compiler.language.constructs.steps import ENTER
from noetl_compiler.migration.context import MigrationContext
from noetl_compiler.migration.entries import Entries
from noetl_compiler.migration.source_lookup import NOWHERE, Region, scalar
from noetl_compiler.migration.values import emit_assigns, emit_condition
from noetl_compiler.nodes import MappingNode, Node, SequenceNode

__all__ = ["emit_enter", "emit_guard"]


def emit_guard(context: MigrationContext, around: Region, guard: Guard | None) -> MappingNode | None:
    """Return a guard as ``{on_status, when, unless}``."""
    if guard is None:
        return None
    unless = tuple(scalar(condition.source) for condition in guard.unless)  # each has its place where it is a condition
    entries = Entries(context, GUARD, around, around.span)
    entries.plain("on_status", guard.on, at=NOWHERE)
    entries.node("when", emit_condition(guard.when), at=NOWHERE)
    entries.node("unless", SequenceNode(unless, NOWHERE) if unless else None, at=NOWHERE)
    return entries.mapping()


def emit_enter(context: MigrationContext, around: Region, rules: tuple[EnterRule, ...]) -> Node | None:
    """Return ``enter`` of a step's spec, a list of ``{guard, set}``."""
    nodes = tuple(_enter_rule(context, around, rule) for rule in rules)
    return SequenceNode(nodes, NOWHERE) if nodes else None


def _enter_rule(context: MigrationContext, around: Region, rule: EnterRule) -> MappingNode:
    region = context.origins.region(rule.span, around)
    entries = Entries(context, ENTER, region, rule.span)
    entries.node("guard", emit_guard(context, region, rule.guard), at=rule.span)
    entries.node("set", emit_assigns(context, region, rule.set))
    return entries.mapping()
