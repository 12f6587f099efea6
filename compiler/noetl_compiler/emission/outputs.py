"""What is said of results as v10 writes it: ``output`` of a task."""

from __future__ import annotations

from noetl_compiler.emission.context import Draft, mapping
from noetl_compiler.emission.source_lookup import NOWHERE, Region, scalar
from noetl_compiler.emission.values import emit_value
from noetl_compiler.graph import Output, Select
from noetl_compiler.nodes import MappingNode, SequenceNode

__all__ = ["emit_output"]


def emit_output(draft: Draft, task: Region, output: Output | None) -> MappingNode | None:
    """Which parts have names, and where the whole is kept."""
    if output is None:
        return None
    region = draft.origins.region(output.span, task)
    select = SequenceNode(tuple(_part(one) for one in output.select), NOWHERE)
    return mapping(
        (region.key("store"), emit_value(region, output.store, "store") if output.store.data else None),
        (region.key("inline_max_bytes"), emit_value(region, output.inline_max_bytes, "inline_max_bytes")),
        (region.key("preview_max_bytes"), emit_value(region, output.preview_max_bytes, "preview_max_bytes")),
        (region.key("select", "output_select"), select if output.select else None),
    )


def _part(one: Select) -> MappingNode:
    return mapping((scalar("path"), scalar(f"$.{one.path}")), (scalar("as"), scalar(one.name)))
