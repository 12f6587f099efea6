"""Routes in v10: ``{spec, arcs}``."""

from __future__ import annotations

from noetl_compiler.graph import Template
from noetl_compiler.language import keys
from noetl_compiler.language.constructs.routes import ARCS, FORK, NEXT_SPEC, TARGET
from noetl_compiler.migration.context import MigrationContext, unless_empty
from noetl_compiler.migration.entries import Entries
from noetl_compiler.migration.source_lookup import NO_SPAN, SourceMapping, scalar
from noetl_compiler.migration.values import emit_assigns, emit_condition, emit_names
from noetl_compiler.nodes import MappingNode, SequenceNode
from noetl_compiler.syntax import Arc, Next
from noetl_compiler.templating.default_on_status import default_on_status

__all__ = ["emit_next"]

Group = tuple[Arc, ...]


def emit_next(context: MigrationContext, step: SourceMapping, route: Next) -> MappingNode:
    """Return the route of a step.

    A route in the spelling of v10 omits its mode if that is exclusive, the default, or if it has a single arc.
    """
    origin = context.source_lookup.mapping_at(route.span, step)
    has_several_arcs = sum(len(group) for group in route.groups) > 1
    mode = route.mode if has_several_arcs else "exclusive"
    omits_mode = origin.entry("arcs") is not None and mode == "exclusive"
    spec = Entries(context, NEXT_SPEC, origin, route.span)
    spec.add_scalar("mode", None if omits_mode else mode)
    spec.add_scalar("on_no_match", route.on_no_match)
    groups = _split(route) if route.mode == "inclusive" else route.groups
    arcs = tuple(_group(context, origin, group) for group in groups)
    entries = Entries(context, ARCS, origin, route.span)
    entries.add_node("spec", unless_empty(spec.mapping(origin.mapping_span("spec"))))
    entries.add_node("arcs", SequenceNode(arcs, NO_SPAN))
    return entries.mapping()


def _split(route: Next) -> tuple[Group, ...]:
    """Return a group for each arc: in inclusive mode all matching arcs are followed, so groups have no meaning."""
    return tuple((arc,) for group in route.groups for arc in group)


def _group(context: MigrationContext, outer: SourceMapping, group: Group) -> MappingNode:
    first = group[0]
    if len(group) == 1:
        return _arc(context, outer, first, first.when)
    entries = Entries(context, FORK, outer, first.span)
    entries.add_node("when", emit_condition(first.when), key_span=NO_SPAN)
    targets = tuple(_arc(context, outer, arc) for arc in group)
    entries.add_node("then", SequenceNode(targets, NO_SPAN), key_span=NO_SPAN)
    return entries.mapping()


def _arc(context: MigrationContext, outer: SourceMapping, arc: Arc, when: Template | None = None) -> MappingNode:
    """Return an arc. ``when``: its condition; None in a fork, which has the condition of its arcs."""
    origin = context.source_lookup.mapping_at(arc.span, outer)
    on_status = None if arc.on_status == default_on_status(arc.when) else arc.on_status
    start = min(arc.span, when.span) if when else arc.span
    entries = Entries(context, TARGET, origin, arc.span)
    entries.add_node("step", scalar(arc.target.text, arc.target.span), key_span=start)
    entries.add_node("when", emit_condition(when))
    entries.add_scalar("on_status", on_status, key_span=NO_SPAN)
    entries.add_node("input", emit_names(origin, arc.args, *keys.INPUT, "data"))
    entries.add_node("set", emit_assigns(context, origin, arc.set), "set_ctx")
    return entries.mapping(arc.span)
