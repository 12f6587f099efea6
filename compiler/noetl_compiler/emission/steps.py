"""Steps as v10 writes them: step, desc, spec, input, loop, tool, set, next."""

from __future__ import annotations

from noetl_compiler.emission.context import Draft, mapping, unless_empty
from noetl_compiler.emission.extensions import Extension
from noetl_compiler.emission.guards import emit_enter
from noetl_compiler.emission.loops import emit_loop
from noetl_compiler.emission.policies import emit_admission
from noetl_compiler.emission.routes import emit_next
from noetl_compiler.emission.source_lookup import Region, scalar
from noetl_compiler.emission.tasks import emit_sinks, emit_tool
from noetl_compiler.emission.values import emit_assigns, emit_names, emit_timeout
from noetl_compiler.language import keys
from noetl_compiler.nodes import MappingNode, Node
from noetl_compiler.syntax import Step

__all__ = ["emit_step"]


def emit_step(draft: Draft, step: Step) -> MappingNode:
    """One step; what it is silent about stays unsaid."""
    region = draft.origins.region(step.span, draft.origins.root)
    return mapping(
        (scalar("step", step.span), scalar(step.name.text, step.name.span)),
        (region.key("desc", "description"), region.scalar(step.desc, "desc", "description") if step.desc else None),
        (region.key("spec"), _spec(draft, region, step)),
        (region.key(*keys.INPUT), emit_names(region, step.args, *keys.INPUT)),
        (region.key("loop"), emit_loop(draft, region, step.loop) if step.loop else None),
        (region.key("tool"), emit_tool(draft, region, step)),
        (region.key("set", "set_ctx", "vars"), emit_assigns(draft, region, step.set)),
        (region.key("next"), emit_next(draft, region, step.next) if step.next else None),
    )


def _spec(draft: Draft, region: Region, step: Step) -> MappingNode | None:
    draft.extend_where(
        step.span,
        {
            Extension.JOIN: step.join,
            Extension.END_LOOP: step.ends,
            Extension.RETURNS: step.result,
            Extension.LOOP_SINK: step.sinks,
            Extension.ENTER: step.enter,
        },
    )
    failure = mapping((scalar("mode"), scalar(step.failure) if step.failure else None))
    policy = mapping(
        (region.key("admit"), emit_admission(region, step.admit)),
        (scalar("failure"), unless_empty(failure)),
    )
    return unless_empty(
        mapping(
            (region.key("join"), scalar(step.join) if step.join else None),
            (region.key("timeout"), emit_timeout(region, step.timeout)),
            (region.key("end_loop"), scalar(step.ends.text, step.ends.span) if step.ends else None),
            (region.key("returns", "result"), _returns(region, step)),
            (region.key("sink", "save"), emit_sinks(draft, region, step.sinks)),
            (region.key("enter"), emit_enter(draft, region, step.enter)),
            (region.key("policy"), unless_empty(policy)),
        )
    )


def _returns(region: Region, step: Step) -> Node | None:
    return region.node(step.result, "returns", "result") if step.result else None
