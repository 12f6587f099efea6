"""Steps in v10: step, desc, spec, input, loop, tool, set, on_failure, status, next."""

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
from noetl_compiler.migration.source_lookup import NO_SPAN, SourceMapping, scalar
from noetl_compiler.migration.tasks import emit_sinks, emit_tool
from noetl_compiler.migration.values import emit_assigns, emit_names
from noetl_compiler.nodes import MappingNode, ScalarNode
from noetl_compiler.syntax import OnFailure, Step

__all__ = ["emit_branch_failure", "emit_on_failure", "emit_step"]


def emit_step(context: MigrationContext, step: Step) -> MappingNode:
    """Return a step; properties that are not set are omitted."""
    origin = context.source_lookup.mapping_at(step.span, context.source_lookup.root)
    entries = Entries(context, STEP, origin, step.span)
    entries.add_node("step", scalar(step.name.text, step.name.span), key_span=step.span)
    entries.add_node("desc", origin.scalar(step.desc, "desc", "description") if step.desc else None)
    entries.add_node("spec", _spec(context, origin, step))
    entries.add_node("input", emit_names(origin, step.args, *keys.INPUT))
    entries.add_node("loop", emit_loop(context, origin, step.loop) if step.loop else None)
    entries.add_node("tool", emit_tool(context, origin, step))
    entries.add_node("set", emit_assigns(context, origin, step.set), "set_ctx", "vars")
    entries.add_node("on_failure", emit_on_failure(context, origin, step.on_failure))
    entries.add_value("status", step.status.value if step.status else None)
    entries.add_node("next", emit_next(context, origin, step.next) if step.next else None)
    return entries.mapping()


def _spec(context: MigrationContext, origin: SourceMapping, step: Step) -> MappingNode | None:
    entries = Entries(context, STEP_SPEC, origin, step.span)
    entries.add_scalar("join", step.join)
    entries.add_timeout(step.timeout)
    entries.add_node("end_loop", scalar(step.ended_loop.text, step.ended_loop.span) if step.ended_loop else None)
    entries.add_value("returns", step.result, "result")
    entries.add_node("sink", emit_sinks(context, origin, step.sinks), "save")
    entries.add_node("enter", emit_enter(context, origin, step.enter))
    entries.add_node("policy", _policy(context, origin, step))
    return unless_empty(entries.mapping())


def _policy(context: MigrationContext, origin: SourceMapping, step: Step) -> MappingNode | None:
    entries = Entries(context, STEP_POLICY, origin, step.span)
    entries.add_node("admit", emit_admission(origin, step.admit))
    entries.add_node("failure", emit_branch_failure(context, origin, step.branch_failure), key_span=NO_SPAN)
    return unless_empty(entries.mapping())


def emit_on_failure(
    context: MigrationContext, origin: SourceMapping, on_failure: OnFailure | None
) -> ScalarNode | MappingNode | None:
    """Return ``on_failure``: a word, or a mapping if it has a duration."""
    if on_failure is None:
        return None
    if on_failure.seconds is None:
        return scalar(on_failure.action, on_failure.span)
    failure_origin = context.source_lookup.mapping_at(on_failure.span, origin)
    entries = Entries(context, ON_FAILURE, failure_origin, on_failure.span)
    entries.add_scalar("do", on_failure.action)
    entries.add_duration("for", on_failure.seconds)
    return entries.mapping(on_failure.span)


def emit_branch_failure(
    context: MigrationContext, origin: SourceMapping, failure: BranchFailure | None
) -> MappingNode | None:
    """Return ``policy.failure``, how an unhandled failure affects other branches; None for the default."""
    entries = Entries(context, FAILURE_MODE, origin, origin.span)
    entries.add_scalar("mode", failure, key_span=NO_SPAN)
    return unless_empty(entries.mapping())
