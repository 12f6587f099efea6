"""Steps in v10: step, desc, spec, input, loop, tool, set, next."""

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

__all__ = ["emit_branch_failure", "emit_on_failure", "emit_step"]


def emit_step(context: MigrationContext, step: Step) -> MappingNode:
    """Return a step; properties that are not set are omitted."""
    region = context.origins.region(step.span, context.origins.root)
    entries = Entries(context, STEP, region, step.span)
    entries.node("step", scalar(step.name.text, step.name.span), at=step.span)
    entries.node("desc", region.scalar(step.desc, "desc", "description") if step.desc else None)
    entries.node("spec", _spec(context, region, step))
    entries.node("input", emit_names(region, step.args, *keys.INPUT))
    entries.node("loop", emit_loop(context, region, step.loop) if step.loop else None)
    entries.node("tool", emit_tool(context, region, step))
    entries.node("set", emit_assigns(context, region, step.set), "set_ctx", "vars")
    entries.node("on_failure", emit_on_failure(context, region, step.on_failure))
    entries.value("status", step.status.value if step.status else None)
    entries.node("next", emit_next(context, region, step.next) if step.next else None)
    return entries.mapping()


def _spec(context: MigrationContext, region: Region, step: Step) -> MappingNode | None:
    entries = Entries(context, STEP_SPEC, region, step.span)
    entries.plain("join", step.join)
    entries.timeout(step.timeout)
    entries.node("end_loop", scalar(step.ended_loop.text, step.ended_loop.span) if step.ended_loop else None)
    entries.value("returns", step.result, "result")
    entries.node("sink", emit_sinks(context, region, step.sinks), "save")
    entries.node("enter", emit_enter(context, region, step.enter))
    entries.node("policy", _policy(context, region, step))
    return unless_empty(entries.mapping())


def _policy(context: MigrationContext, region: Region, step: Step) -> MappingNode | None:
    entries = Entries(context, STEP_POLICY, region, step.span)
    entries.node("admit", emit_admission(region, step.admit))
    entries.node("failure", emit_branch_failure(context, region, step.branch_failure), at=NOWHERE)
    return unless_empty(entries.mapping())


def emit_on_failure(
    context: MigrationContext, region: Region, on_failure: OnFailure | None
) -> ScalarNode | MappingNode | None:
    """Return ``on_failure``: a word, or a mapping if it has a duration."""
    if on_failure is None or on_failure.seconds is None:
        return scalar(on_failure.action, on_failure.span) if on_failure else None
    own_region = context.origins.region(on_failure.span, region)
    entries = Entries(context, ON_FAILURE, own_region, on_failure.span)
    entries.plain("do", on_failure.action)
    entries.duration("for", on_failure.seconds)
    return entries.mapping(on_failure.span)


def emit_branch_failure(context: MigrationContext, region: Region, failure: BranchFailure | None) -> MappingNode | None:
    """Return ``policy.failure``, how an unhandled failure affects other branches; None for the default."""
    entries = Entries(context, FAILURE_MODE, region, region.span)
    entries.plain("mode", failure, at=NOWHERE)
    return unless_empty(entries.mapping())
