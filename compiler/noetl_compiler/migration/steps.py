"""Steps as v10 writes them: step, desc, spec, input, loop, tool, set, next."""

from __future__ import annotations

from noetl_compiler.language import keys
from noetl_compiler.language.constructs.policies import FAILURE_MODE, ON_FAILURE
from noetl_compiler.language.constructs.steps import STEP, STEP_POLICY, STEP_SPEC
from noetl_compiler.language.words import BranchFailure
from noetl_compiler.migration.context import MigrationContext, unless_empty
from noetl_compiler.migration.entries import Entries
from noetl_compiler.migration.guards import emit_enter
from noetl_compiler.migration.loops import emit_loop
from noetl_compiler.migration.policies import emit_admission
from noetl_compiler.migration.routes import emit_next
from noetl_compiler.migration.source_lookup import NOWHERE, Region, scalar
from noetl_compiler.migration.tasks import emit_sinks, emit_tool
from noetl_compiler.migration.values import emit_assigns, emit_names
from noetl_compiler.nodes import MappingNode, ScalarNode
from noetl_compiler.syntax import OnFailure, Step

__all__ = ["emit_failure", "emit_on_failure", "emit_step"]


def emit_step(context: MigrationContext, step: Step) -> MappingNode:
    """Return a step; properties that are not set are omitted."""
    region = context.origins.region(step.span, context.origins.root)
    written = Entries(context, STEP, region, step.span)
    written.node("step", scalar(step.name.text, step.name.span), at=step.span)
    written.node("desc", region.scalar(step.desc, "desc", "description") if step.desc else None)
    written.node("spec", _spec(context, region, step))
    written.node("input", emit_names(region, step.args, *keys.INPUT))
    written.node("loop", emit_loop(context, region, step.loop) if step.loop else None)
    written.node("tool", emit_tool(context, region, step))
    written.node("set", emit_assigns(context, region, step.set), "set_ctx", "vars")
    written.node("on_failure", emit_on_failure(context, region, step.on_failure))
    written.value("status", step.status.value if step.status else None)
    written.node("next", emit_next(context, region, step.next) if step.next else None)
    return written.mapping()


def _spec(context: MigrationContext, region: Region, step: Step) -> MappingNode | None:
    written = Entries(context, STEP_SPEC, region, step.span)
    written.plain("join", step.join)
    written.timeout(step.timeout)
    written.node("end_loop", scalar(step.ends.text, step.ends.span) if step.ends else None)
    written.value("returns", step.result, "result")
    written.node("sink", emit_sinks(context, region, step.sinks), "save")
    written.node("enter", emit_enter(context, region, step.enter))
    written.node("policy", _policy(context, region, step))
    return unless_empty(written.mapping())


def _policy(context: MigrationContext, region: Region, step: Step) -> MappingNode | None:
    written = Entries(context, STEP_POLICY, region, step.span)
    written.node("admit", emit_admission(region, step.admit))
    written.node("failure", emit_failure(context, region, step.failure), at=NOWHERE)
    return unless_empty(written.mapping())


def emit_on_failure(
    context: MigrationContext, region: Region, said: OnFailure | None
) -> ScalarNode | MappingNode | None:
    """Whether a failed step waits for a person: a word, unless it says for how long."""
    if said is None or said.seconds is None:
        return scalar(said.action, said.span) if said else None
    own = context.origins.region(said.span, region)
    written = Entries(context, ON_FAILURE, own, said.span)
    written.plain("do", said.action)
    written.duration("for", said.seconds)
    return written.mapping(said.span)


def emit_failure(context: MigrationContext, region: Region, failure: BranchFailure | None) -> MappingNode | None:
    """Return the entry that says how an unhandled failure affects other branches; None for the default."""
    written = Entries(context, FAILURE_MODE, region, region.span)
    written.plain("mode", failure, at=NOWHERE)
    return unless_empty(written.mapping())
