"""``output`` of a task in v10."""

from __future__ import annotations

from noetl_compiler.graph import Output, Select
from noetl_compiler.language.constructs.results import OUTPUT_CONSTRUCT, PART
from noetl_compiler.migration.context import MigrationContext
from noetl_compiler.migration.entries import Entries
from noetl_compiler.migration.source_lookup import NO_SPAN, SourceMapping
from noetl_compiler.nodes import MappingNode, SequenceNode

__all__ = ["emit_output"]


def emit_output(context: MigrationContext, task: SourceMapping, output: Output | None) -> MappingNode | None:
    """Return ``output``: the named parts of a result, and where it is stored."""
    if output is None:
        return None
    origin = context.source_lookup.mapping_at(output.span, task)
    select = SequenceNode(tuple(_part(context, origin, part) for part in output.select), NO_SPAN)
    entries = Entries(context, OUTPUT_CONSTRUCT, origin, output.span)
    entries.add_value("store", output.store if output.store.data else None)
    entries.add_value("inline_max_bytes", output.inline_max_bytes)
    entries.add_value("preview_max_bytes", output.preview_max_bytes)
    entries.add_node("select", select if output.select else None)
    return entries.mapping()


def _part(context: MigrationContext, origin: SourceMapping, part: Select) -> MappingNode:
    entries = Entries(context, PART, origin, origin.span)
    entries.add_scalar("path", f"$.{part.path}", key_span=NO_SPAN)
    entries.add_scalar("as", part.name, key_span=NO_SPAN)
    return entries.mapping()
