"""Converts a playbook to a v10 document."""

from __future__ import annotations

from noetl_compiler.language.constructs.playbook import (
    EXECUTOR,
    EXECUTOR_POLICY,
    EXECUTOR_SPEC,
    PLAYBOOK,
    V10_API_VERSIONS,
)
from noetl_compiler.migration.context import MigrationContext, unless_empty
from noetl_compiler.migration.entries import Entries
from noetl_compiler.migration.extensions import DIALECT
from noetl_compiler.migration.source_lookup import NO_SPAN, SourceMapping, scalar
from noetl_compiler.migration.steps import emit_branch_failure, emit_on_failure, emit_step
from noetl_compiler.migration.tasks import emit_workbook
from noetl_compiler.migration.values import emit_names
from noetl_compiler.nodes import MappingNode, ScalarNode, SequenceNode

__all__ = ["emit_document"]

_IDENTITY_KEYS = ("name", "path", "version", "description", "desc")
"""Keys that v1 has at the root, and v10 in the metadata."""


def emit_document(context: MigrationContext) -> MappingNode:
    """Return the whole document. Keys at the root that only a catalog or another engine reads are kept unchanged."""
    root, playbook = context.source_lookup.root, context.playbook
    steps = tuple(emit_step(context, step) for step in playbook.steps)
    entries = Entries(context, PLAYBOOK, root, root.span)
    entries.add_node("apiVersion", root.scalar(_version(root), "apiVersion", "api_version"), key_span=root.span)
    entries.add_node("kind", root.scalar("Playbook", "kind"))
    entries.add_node("metadata", _metadata(root))
    entries.add_node("executor", _executor(context, root))
    entries.add_node("workload", emit_names(root, playbook.workload, "workload"))
    entries.copy_verbatim(root)
    entries.add_node("workbook", emit_workbook(context))
    entries.add_node("workflow", SequenceNode(steps, NO_SPAN))
    return entries.mapping()


def _version(root: SourceMapping) -> str:
    version = root.text("apiVersion", "api_version")
    return version if version in V10_API_VERSIONS else V10_API_VERSIONS[0]


def _metadata(root: SourceMapping) -> MappingNode:
    metadata = root.entry("metadata")
    original_entries = metadata[1].entries if metadata and isinstance(metadata[1], MappingNode) else ()
    metadata_names = {key.text for key, item in original_entries if isinstance(item, ScalarNode) and item.text}
    outer = [
        root.entry(key)
        for key in _IDENTITY_KEYS
        if key not in metadata_names and not (key == "desc" and "description" in metadata_names)
    ]
    outer_entries = {entry[0].text: entry for entry in outer if entry}
    remaining_entries = (entry for entry in original_entries if entry[0].text not in outer_entries)
    return MappingNode(
        (*remaining_entries, *outer_entries.values()), NO_SPAN if outer_entries else root.mapping_span("metadata")
    )


def _executor(context: MigrationContext, root: SourceMapping) -> MappingNode | None:
    executor = root.entry("executor")
    origin = SourceMapping(executor[1]) if executor and isinstance(executor[1], MappingNode) else None
    entries = Entries(context, EXECUTOR, root, root.span)
    if origin is not None:
        entries.copy_verbatim(origin)
    entries.add_node("spec", unless_empty(_executor_spec(context, origin or root)))
    return unless_empty(entries.mapping())


def _executor_spec(context: MigrationContext, origin: SourceMapping) -> MappingNode:
    playbook = context.playbook
    if playbook.dialect != "v10":
        context.note_extension(DIALECT, origin.span)
    policy = Entries(context, EXECUTOR_POLICY, origin, origin.span)
    policy.add_node("failure", emit_branch_failure(context, origin, playbook.branch_failure), key_span=NO_SPAN)
    entries = Entries(context, EXECUTOR_SPEC, origin, origin.span)
    entries.add_node("entry_step", scalar(playbook.entry.text, playbook.entry.span) if playbook.entry else None)
    entries.add_node("final_step", scalar(playbook.final.text, playbook.final.span) if playbook.final else None)
    entries.add_scalar("no_next_is_error", playbook.no_next_is_error)
    entries.add_timeout(playbook.timeout)
    entries.add_node("on_failure", emit_on_failure(context, origin, playbook.on_failure))
    entries.add_node("policy", unless_empty(policy.mapping()))
    entries.add_scalar("dialect", playbook.dialect)
    return entries.mapping()
