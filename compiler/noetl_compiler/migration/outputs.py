"""``output`` of a task as v10 writes it: its result."""

from __future__ import annotations

from noetl_compiler.graph import Output, Select
from noetl_compiler.language.constructs.results import OUTPUT_CONSTRUCT, PART
from noetl_compiler.migration.context import MigrationContext
from noetl_compiler.migration.entries import Entries
from noetl_compiler.migration.source_lookup import NOWHERE, Region
from noetl_compiler.nodes import MappingNode, SequenceNode

__all__ = ["emit_output"]


def emit_output(context: MigrationContext, task: Region, output: Output | None) -> MappingNode | None:
    """Return ``output``: which parts have names, and where the whole is stored."""
    if output is None:
        return None
    region = context.origins.region(output.span, task)
    select = SequenceNode(tuple(_part(context, region, one) for one in output.select), NOWHERE)
    written = Entries(context, OUTPUT_CONSTRUCT, region, output.span)
    written.value("store", output.store if output.store.data else None)
    written.value("inline_max_bytes", output.inline_max_bytes)
    written.value("preview_max_bytes", output.preview_max_bytes)
    written.node("select", select if output.select else None)
    return written.mapping()


def _part(context: MigrationContext, region: Region, one: Select) -> MappingNode:
    written = Entries(context, PART, region, region.span)
    written.plain("path", f"$.{one.path}", at=NOWHERE)
    written.plain("as", one.name, at=NOWHERE)
    return written.mapping()
