"""Guards as our v10 writes them: in which cases a task, a sink or an assignment on entering is done."""

from __future__ import annotations

from noetl_compiler.emission.context import Draft, mapping
from noetl_compiler.emission.extensions import Extension
from noetl_compiler.emission.source_lookup import NOWHERE, Region, scalar
from noetl_compiler.emission.values import emit_assigns, emit_condition
from noetl_compiler.graph import EnterRule, Guard, Span
from noetl_compiler.nodes import MappingNode, Node, SequenceNode

__all__ = ["emit_enter", "emit_guard"]


def emit_guard(draft: Draft, guard: Guard | None, span: Span) -> MappingNode | None:
    """``{on_status, when, unless}``."""
    if guard is None:
        return None
    draft.extend(Extension.GUARD, span)
    unless = tuple(scalar(one.source) for one in guard.unless)  # each has its place where it is a condition
    return mapping(
        (scalar("on_status"), scalar(guard.on)),
        (scalar("when"), emit_condition(guard.when)),
        (scalar("unless"), SequenceNode(unless, NOWHERE) if unless else None),
    )


def emit_enter(draft: Draft, around: Region, rules: tuple[EnterRule, ...]) -> Node | None:
    """``enter`` of a step's spec, a list of ``{guard, set}``."""
    nodes = tuple(_enter_rule(draft, around, rule) for rule in rules)
    return SequenceNode(nodes, NOWHERE) if nodes else None


def _enter_rule(draft: Draft, around: Region, rule: EnterRule) -> MappingNode:
    region = draft.origins.region(rule.span, around)
    return mapping(
        (scalar("guard", rule.span), emit_guard(draft, rule.guard, rule.span)),
        (region.key("set"), emit_assigns(draft, region, rule.set)),
    )
