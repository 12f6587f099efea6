"""Ways on as v10 writes them: ``{spec, arcs}``."""

from __future__ import annotations

from noetl_compiler.graph import Template
from noetl_compiler.language import keys
from noetl_compiler.language.constructs.routes import ARCS, FORK, NEXT_SPEC, TARGET
from noetl_compiler.migration.context import MigrationContext, unless_empty
from noetl_compiler.migration.entries import Entries
from noetl_compiler.migration.source_lookup import NOWHERE, Region, scalar
from noetl_compiler.migration.values import emit_assigns, emit_condition, emit_names
from noetl_compiler.nodes import MappingNode, SequenceNode
from noetl_compiler.syntax import Arc, Next
from noetl_compiler.templating.boundary import boundary

__all__ = ["emit_next"]

Group = tuple[Arc, ...]


def emit_next(context: MigrationContext, step: Region, found: Next) -> MappingNode:
    """Return the route of a step.

    A single arc needs no mode, and one that an author of v10 did not write is not added.
    """
    region = context.origins.region(found.span, step)
    several = sum(len(group) for group in found.groups) > 1
    mode = found.mode if several else None if region.entry("arcs") else "exclusive"
    spec = Entries(context, NEXT_SPEC, region, found.span)
    spec.plain("mode", mode)
    spec.plain("on_no_match", found.on_no_match)
    groups = _split(found) if found.mode == "inclusive" else found.groups
    arcs = tuple(_group(context, region, group) for group in groups)
    written = Entries(context, ARCS, region, found.span)
    written.node("spec", unless_empty(spec.mapping(region.place("spec"))))
    written.node("arcs", SequenceNode(arcs, NOWHERE))
    return written.mapping()


def _split(found: Next) -> tuple[Group, ...]:
    """All arcs are taken that match, so groups mean nothing here."""
    return tuple((arc,) for group in found.groups for arc in group)


def _group(context: MigrationContext, around: Region, group: Group) -> MappingNode:
    first = group[0]
    if len(group) == 1:
        return _arc(context, around, first, first.when)
    written = Entries(context, FORK, around, first.span)
    written.node("when", emit_condition(first.when), at=NOWHERE)
    targets = tuple(_arc(context, around, arc) for arc in group)
    written.node("then", SequenceNode(targets, NOWHERE), at=NOWHERE)
    return written.mapping()


def _arc(context: MigrationContext, around: Region, arc: Arc, when: Template | None = None) -> MappingNode:
    region = context.origins.region(arc.span, around)
    on = None if arc.on == boundary(arc.when) else arc.on
    begins = min(arc.span, when.span) if when else arc.span
    written = Entries(context, TARGET, region, arc.span)
    written.node("step", scalar(arc.to.text, arc.to.span), at=begins)
    written.node("when", emit_condition(when))
    written.plain("on_status", on, at=NOWHERE)
    written.node("input", emit_names(region, arc.args, *keys.INPUT, "data"))
    written.node("set", emit_assigns(context, region, arc.set), "set_ctx")
    return written.mapping(arc.span)
