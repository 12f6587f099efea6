"""Loops as v10 writes them: in, iterator, spec."""

from __future__ import annotations

from noetl_compiler import graph
from noetl_compiler.graph import Cursor
from noetl_compiler.language import defaults
from noetl_compiler.language.constructs.loops import CURSOR, FRAME, LOOP, LOOP_FAILURE, LOOP_POLICY, LOOP_SPEC
from noetl_compiler.migration.context import MigrationContext, mapping, unless_empty
from noetl_compiler.migration.entries import Entries
from noetl_compiler.migration.routes import emit_next
from noetl_compiler.migration.source_lookup import NOWHERE, Region, scalar
from noetl_compiler.migration.values import emit_condition, emit_value
from noetl_compiler.nodes import MappingNode, Node
from noetl_compiler.syntax import Loop

__all__ = ["emit_loop"]

_FRAME = "frame"


def emit_loop(context: MigrationContext, step: Region, loop: Loop) -> MappingNode:
    """Return the loop of a step."""
    body, region = loop.body, context.origins.region(loop.body.span, step)
    written = Entries(context, LOOP, region, body.span)
    written.value("in", body.collection)
    written.node("cursor", _cursor(context, region, body.cursor) if body.cursor else None)
    written.node("iterator", scalar(loop.element.text, loop.element.span))
    written.node("where", emit_condition(body.where))
    written.node("order_by", emit_condition(body.order_by))
    written.value("limit", body.limit)
    written.node("spec", _spec(context, region, body))
    written.node("next", emit_next(context, region, loop.next) if loop.next else None)
    return written.mapping()


def _cursor(context: MigrationContext, around: Region, cursor: Cursor) -> MappingNode:
    """Return the cursor of a loop. Its configuration keeps the original order."""
    own = [entry for entry in around.entries(cursor.config) if entry[0].text != _FRAME]
    for extension in (CURSOR.by_name[key.text].extension for key, _ in own):
        if extension is not None:
            context.extend(extension, cursor.span)
    return mapping(
        (scalar("kind", cursor.span), around.scalar(cursor.kind, "kind")),
        (around.key("auth", "credential"), emit_value(around, cursor.auth, "auth", "credential")),
        *own,
    )


def _spec(context: MigrationContext, region: Region, body: graph.Loop) -> MappingNode:
    mode = "cursor" if body.cursor and body.mode == "parallel" else body.mode
    written = Entries(context, LOOP_SPEC, region, body.span)
    written.node("mode", region.scalar(mode, "mode"))
    written.value("max_in_flight", body.max_in_flight)
    written.value("chunk_size", body.chunk_size)
    written.node(_FRAME, _frame(context, region, body.frame) if body.frame else _cursor_frame(region, body.cursor))
    written.plain("on_error", body.on_error)
    written.node("policy", _policy(context, region, body))
    return written.mapping(region.place("spec"))


def _policy(context: MigrationContext, region: Region, body: graph.Loop) -> MappingNode | None:
    failure = Entries(context, LOOP_FAILURE, region, body.span)
    failure.plain("mode", body.failure, at=NOWHERE)
    written = Entries(context, LOOP_POLICY, region, body.span)
    written.node("failure", unless_empty(failure.mapping()), at=NOWHERE)
    return unless_empty(written.mapping())


def _frame(context: MigrationContext, region: Region, frame: graph.Frame) -> MappingNode:
    written = Entries(context, FRAME, context.origins.region(frame.span, region), frame.span)
    for name in defaults.FRAME:
        written.value(name, getattr(frame, name))
    return written.mapping(frame.span)


def _cursor_frame(region: Region, cursor: Cursor | None) -> Node | None:
    found = region.entries(cursor.config) if cursor else []
    return next((node for key, node in found if key.text == _FRAME), None)
