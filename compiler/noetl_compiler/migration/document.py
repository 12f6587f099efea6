"""A playbook as a v10 document."""

from __future__ import annotations

from noetl_compiler.language.constructs.playbook import EXECUTOR, EXECUTOR_POLICY, EXECUTOR_SPEC, PLAYBOOK
from noetl_compiler.migration.context import MigrationContext, unless_empty
from noetl_compiler.migration.entries import Entries
from noetl_compiler.migration.extensions import DIALECT
from noetl_compiler.migration.source_lookup import NOWHERE, Region, scalar
from noetl_compiler.migration.steps import emit_failure, emit_on_failure, emit_step
from noetl_compiler.migration.tasks import emit_workbook
from noetl_compiler.migration.values import emit_names
from noetl_compiler.nodes import MappingNode, ScalarNode, SequenceNode

__all__ = ["emit_document"]

_API_VERSION = "noetl.io/v2"
"""What v10 files say; upstream's engines for production accept nothing else."""

_KEPT_VERSIONS = frozenset({_API_VERSION, "noetl.io/v10"})
"""These stay as their author wrote them."""

_IDENTITY = ("name", "path", "version", "description", "desc")
"""What v1 has at the root, and v10 in the metadata."""


def emit_document(context: MigrationContext) -> MappingNode:
    """Return the whole document. Keys at the top that only a catalog or another engine reads are kept unchanged."""
    root, playbook = context.origins.root, context.playbook
    steps = tuple(emit_step(context, step) for step in playbook.steps)
    written = Entries(context, PLAYBOOK, root, root.span)
    written.node("apiVersion", root.scalar(_version(root), "apiVersion", "api_version"), at=root.span)
    written.node("kind", root.scalar("Playbook", "kind"))
    written.node("metadata", _metadata(root))
    written.node("executor", _executor(context, root))
    written.node("workload", emit_names(root, playbook.workload, "workload"))
    written.verbatim(root)
    written.node("workbook", emit_workbook(context))
    written.node("workflow", SequenceNode(steps, NOWHERE))
    return written.mapping()


def _version(root: Region) -> str:
    written = root.text("apiVersion", "api_version")
    return written if written in _KEPT_VERSIONS else _API_VERSION


def _metadata(root: Region) -> MappingNode:
    found = root.entry("metadata")
    own = found[1].entries if found and isinstance(found[1], MappingNode) else ()
    said = {key.text for key, item in own if isinstance(item, ScalarNode) and item.text}
    outer = [root.entry(key) for key in _IDENTITY if key not in said and not (key == "desc" and "description" in said)]
    added = {entry[0].text: entry for entry in outer if entry}
    kept = (entry for entry in own if entry[0].text not in added)
    return MappingNode((*kept, *added.values()), NOWHERE if added else root.place("metadata"))


def _executor(context: MigrationContext, root: Region) -> MappingNode | None:
    found = root.entry("executor")
    region = Region(found[1]) if found and isinstance(found[1], MappingNode) else None
    written = Entries(context, EXECUTOR, root, root.span)
    if region is not None:
        written.verbatim(region)
    written.node("spec", unless_empty(_executor_spec(context, region or root)))
    return unless_empty(written.mapping())


def _executor_spec(context: MigrationContext, region: Region) -> MappingNode:
    playbook = context.playbook
    if playbook.dialect != "v10":
        context.extend(DIALECT, region.span)
    policy = Entries(context, EXECUTOR_POLICY, region, region.span)
    policy.node("failure", emit_failure(context, region, playbook.failure), at=NOWHERE)
    written = Entries(context, EXECUTOR_SPEC, region, region.span)
    written.node("entry_step", scalar(playbook.entry.text, playbook.entry.span) if playbook.entry else None)
    written.node("final_step", scalar(playbook.final.text, playbook.final.span) if playbook.final else None)
    written.plain("no_next_is_error", playbook.no_next_is_error)
    written.timeout(playbook.timeout)
    written.node("on_failure", emit_on_failure(context, region, playbook.on_failure))
    written.node("policy", unless_empty(policy.mapping()))
    written.plain("dialect", playbook.dialect)
    return written.mapping()
