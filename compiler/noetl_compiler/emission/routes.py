"""Ways on as v10 writes them: ``{spec, arcs}``."""

from __future__ import annotations

from noetl_compiler.emission.context import Draft, mapping, unless_empty
from noetl_compiler.emission.extensions import Extension
from noetl_compiler.emission.source_lookup import NOWHERE, Region, scalar
from noetl_compiler.emission.values import emit_assigns, emit_condition, emit_names
from noetl_compiler.graph import Template
from noetl_compiler.language import keys
from noetl_compiler.nodes import MappingNode, SequenceNode
from noetl_compiler.syntax import Arc, Next
from noetl_compiler.templating.boundary import boundary

__all__ = ["emit_next"]

Group = tuple[Arc, ...]


def emit_next(draft: Draft, step: Region, found: Next) -> MappingNode:
    """The route of a step. A single arc needs no mode, and one that an author of v10 did not write is not added."""
    region = draft.origins.region(found.span, step)
    several = sum(len(group) for group in found.groups) > 1
    mode = found.mode if several else None if region.entry("arcs") else "exclusive"
    spec = mapping(
        (region.key("mode"), scalar(mode) if mode else None),
        (region.key("on_no_match"), scalar(found.on_no_match) if found.on_no_match else None),
        span=region.place("spec"),
    )
    groups = _split(found) if found.mode == "inclusive" else found.groups
    arcs = tuple(_group(draft, region, group) for group in groups)
    return mapping(
        (region.key("spec"), unless_empty(spec)),
        (region.key("arcs"), SequenceNode(arcs, NOWHERE)),
    )


def _split(found: Next) -> tuple[Group, ...]:
    """All arcs are taken that match, so groups mean nothing here."""
    return tuple((arc,) for group in found.groups for arc in group)


def _group(draft: Draft, around: Region, group: Group) -> MappingNode:
    when = group[0].when
    if len(group) == 1:
        return _arc(draft, around, group[0], when)
    draft.extend(Extension.ARC_THEN, group[0].span)
    targets = SequenceNode(tuple(_arc(draft, around, arc, None) for arc in group), NOWHERE)
    return mapping((scalar("when"), emit_condition(when)), (scalar("then"), targets))


def _arc(draft: Draft, around: Region, arc: Arc, when: Template | None) -> MappingNode:
    region = draft.origins.region(arc.span, around)
    if arc.args.data:
        draft.extend(Extension.ARC_INPUT, arc.span)
    on = None if arc.on == boundary(arc.when) else arc.on
    if on:
        draft.extend(Extension.ARC_ON_STATUS, arc.span)
    begins = min(arc.span, when.span) if when else arc.span
    return mapping(
        (scalar("step", begins), scalar(arc.to.text, arc.to.span)),
        (region.key("when"), emit_condition(when)),
        (scalar("on_status"), scalar(on) if on else None),
        (region.key(*keys.INPUT), emit_names(region, arc.args, *keys.INPUT, "data")),
        (region.key("set", "set_ctx"), emit_assigns(draft, region, arc.set)),
        span=arc.span,
    )
