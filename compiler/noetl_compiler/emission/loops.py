"""Loops as v10 writes them: in, iterator, spec."""

from __future__ import annotations

from noetl_compiler import graph
from noetl_compiler.emission.context import Draft, mapping, unless_empty
from noetl_compiler.emission.extensions import Extension
from noetl_compiler.emission.source_lookup import Entry, Region, scalar
from noetl_compiler.emission.values import emit_condition, emit_value
from noetl_compiler.graph import Cursor
from noetl_compiler.language import defaults
from noetl_compiler.nodes import MappingNode, Node
from noetl_compiler.syntax import Loop

__all__ = ["emit_loop"]

_FRAME = "frame"


def emit_loop(draft: Draft, step: Region, loop: Loop) -> MappingNode:
    """The loop of a step."""
    body, region = loop.body, draft.origins.region(loop.body.span, step)
    draft.extend_where(
        body.span,
        {
            Extension.WHERE: body.where,
            Extension.ORDER_BY: body.order_by,
            Extension.LIMIT: body.limit,
            Extension.CHUNK_SIZE: body.chunk_size,
            Extension.ON_ERROR: body.on_error != "continue",
        },
    )
    return mapping(
        (region.key("in", "collection", "items"), _collection(region, body)),
        (region.key("cursor"), _cursor(region, body.cursor) if body.cursor else None),
        (region.key("iterator", "element", "as"), scalar(loop.element.text, loop.element.span)),
        (region.key("where", "filter"), emit_condition(body.where)),
        (region.key("order_by"), emit_condition(body.order_by)),
        (region.key("limit"), emit_value(region, body.limit, "limit")),
        (region.key("spec"), _spec(draft, region, body)),
    )


def _collection(region: Region, body: graph.Loop) -> Node | None:
    return region.node(body.collection, "in", "collection", "items") if body.collection else None


def _cursor(around: Region, cursor: Cursor) -> MappingNode:
    return mapping(
        (scalar("kind", cursor.span), around.scalar(cursor.kind, "kind")),
        (around.key("auth", "credential"), emit_value(around, cursor.auth, "auth", "credential")),
        *(entry for entry in around.entries(cursor.config) if entry[0].text != _FRAME),
    )


def _spec(draft: Draft, region: Region, body: graph.Loop) -> MappingNode:
    failure = mapping((scalar("mode"), scalar(body.failure) if body.failure != "fail" else None))
    policy = mapping((scalar("failure"), unless_empty(failure)))
    mode = "cursor" if body.cursor and body.mode == "parallel" else body.mode
    in_flight, chunk = ("max_in_flight", "concurrency"), ("chunk_size", "chunk")
    return mapping(
        (region.key("mode"), region.scalar(mode, "mode")),
        (region.key(*in_flight), emit_value(region, body.max_in_flight, *in_flight)),
        (region.key(*chunk), emit_value(region, body.chunk_size, *chunk)),
        *_cursor_frame(region, body.cursor),
        (region.key(_FRAME), _frame(draft, region, body.frame) if body.frame else None),
        (region.key("on_error"), scalar(body.on_error) if body.on_error != "continue" else None),
        (region.key("policy"), unless_empty(policy)),
        span=region.place("spec"),
    )


def _frame(draft: Draft, region: Region, frame: graph.Frame) -> MappingNode:
    around = draft.origins.region(frame.span, region)
    return mapping(
        *((around.key(name), emit_value(around, getattr(frame, name), name)) for name in defaults.FRAME),
        span=frame.span,
    )


def _cursor_frame(region: Region, cursor: Cursor | None) -> list[Entry]:
    found = region.entries(cursor.config) if cursor else []
    return [entry for entry in found if entry[0].text == _FRAME]
