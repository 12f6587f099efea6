"""A playbook as a v10 document."""

from __future__ import annotations

from noetl_compiler.emission.context import Draft, mapping, unless_empty
from noetl_compiler.emission.extensions import Extension
from noetl_compiler.emission.source_lookup import NOWHERE, Entry, Region, scalar
from noetl_compiler.emission.steps import emit_step
from noetl_compiler.emission.tasks import emit_workbook
from noetl_compiler.emission.values import emit_names, emit_timeout
from noetl_compiler.nodes import MappingNode, ScalarNode, SequenceNode

__all__ = ["emit_document"]

_API_VERSION = "noetl.io/v2"
"""v10 files say v2; upstream's engines accept nothing else."""
_IDENTITY = ("name", "path", "version", "description", "desc")
"""What v1 has at the root, and v10 in the metadata."""


def emit_document(draft: Draft) -> MappingNode:
    """The whole document; what a catalog or another engine reads of its head is kept as it is."""
    root, playbook = draft.origins.root, draft.playbook
    steps = tuple(emit_step(draft, step) for step in playbook.steps)
    keychain = root.entry("keychain")
    return mapping(
        (scalar("apiVersion", root.span), root.scalar(_API_VERSION, "apiVersion", "api_version")),
        (root.key("kind"), root.scalar("Playbook", "kind")),
        (root.key("metadata"), _metadata(root)),
        (root.key("executor"), _executor(draft, root)),
        (root.key("workload"), emit_names(root, playbook.workload, "workload")),
        (root.key("keychain"), keychain[1] if keychain else None),
        (root.key("workbook"), emit_workbook(draft)),
        (root.key("workflow"), SequenceNode(steps, NOWHERE)),
    )


def _metadata(root: Region) -> MappingNode:
    found = root.entry("metadata")
    own = found[1].entries if found and isinstance(found[1], MappingNode) else ()
    said = {key.text for key, item in own if isinstance(item, ScalarNode) and item.text}
    outer = [root.entry(key) for key in _IDENTITY if key not in said and not (key == "desc" and "description" in said)]
    added = {entry[0].text: entry for entry in outer if entry}
    kept = (entry for entry in own if entry[0].text not in added)
    return MappingNode((*kept, *added.values()), NOWHERE if added else root.place("metadata"))


def _executor(draft: Draft, root: Region) -> MappingNode | None:
    found = root.entry("executor")
    region = Region(found[1]) if found and isinstance(found[1], MappingNode) else None
    kept: list[Entry | None] = [region.entry(key) for key in ("profile", "version", "requires")] if region else []
    spec = unless_empty(_executor_spec(draft, region or root))
    return unless_empty(mapping(*(entry for entry in kept if entry), (root.key("spec"), spec)))


def _executor_spec(draft: Draft, region: Region) -> MappingNode:
    playbook = draft.playbook
    if playbook.dialect != "v10":
        draft.extend(Extension.DIALECT, region.span)
    failure = mapping((scalar("mode"), scalar(playbook.failure) if playbook.failure else None))
    policy = mapping((scalar("failure"), unless_empty(failure)))
    return mapping(
        (region.key("entry_step"), scalar(playbook.entry.text, playbook.entry.span) if playbook.entry else None),
        (region.key("final_step"), scalar(playbook.final.text, playbook.final.span) if playbook.final else None),
        (region.key("no_next_is_error"), scalar(True) if playbook.no_next_is_error else None),
        (region.key("timeout"), emit_timeout(region, playbook.timeout)),
        (region.key("policy"), unless_empty(policy)),
        (region.key("dialect"), scalar(playbook.dialect) if playbook.dialect != "v10" else None),
    )
