"""Loops in v10: in, iterator, spec."""

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
    entries = Entries(context, LOOP, region, body.span)
    entries.value("in", body.collection)
    entries.node("cursor", _cursor(context, region, body.cursor) if body.cursor else None)
    entries.node("iterator", scalar(loop.element.text, loop.element.span))
    entries.node("where", emit_condition(body.where))
    entries.node("order_by", emit_condition(body.order_by))
    entries.value("limit", body.limit)
    entries.node("spec", _spec(context, region, body))
    entries.node("next", emit_next(context, region, loop.next) if loop.next else None)
    return entries.mapping()


def _cursor(context: MigrationContext, around: Region, cursor: Cursor) -> MappingNode:
    """Return the cursor of a loop. Its configuration keeps the original order."""
    config_entries = [entry for entry in around.entries(cursor.config) if entry[0].text != _FRAME]
    for extension in (CURSOR.by_name[key.text].extension for key, _ in config_entries):
        if extension is not None:
            context.extend(extension, cursor.span)
    return mapping(
        (scalar("kind", cursor.span), around.scalar(cursor.kind, "kind")),
        (around.key("auth", "credential"), emit_value(around, cursor.auth, "auth", "credential")),
        *config_entries,
    )


def _spec(context: MigrationContext, region: Region, body: graph.Loop) -> MappingNode:
    mode = "cursor" if body.cursor and body.mode == "parallel" else body.mode
    entries = Entries(context, LOOP_SPEC, region, body.span)
    entries.node("mode", region.scalar(mode, "mode"))
    entries.value("max_in_flight", body.max_in_flight)
    entries.value("chunk_size", body.chunk_size)
    entries.node(_FRAME, _frame(context, region, body.frame) if body.frame else _cursor_frame(region, body.cursor))
    entries.plain("on_error", body.on_error)
    entries.node("policy", _policy(context, region, body))
    return entries.mapping(region.mapping_span("spec"))


def _policy(context: MigrationContext, region: Region, body: graph.Loop) -> MappingNode | None:
    failure = Entries(context, LOOP_FAILURE, region, body.span)
    failure.plain("mode", body.failure, at=NOWHERE)
    entries = Entries(context, LOOP_POLICY, region, body.span)
    entries.node("failure", unless_empty(failure.mapping()), at=NOWHERE)
    return unless_empty(entries.mapping())


def _frame(context: MigrationContext, region: Region, frame: graph.Frame) -> MappingNode:
    entries = Entries(context, FRAME, context.origins.region(frame.span, region), frame.span)
    for name in defaults.FRAME:
        entries.value(name, getattr(frame, name))
    return entries.mapping(frame.span)


def _cursor_frame(region: Region, cursor: Cursor | None) -> Node | None:
    config_entries = region.entries(cursor.config) if cursor else []
    return next((node for key, node in config_entries if key.text == _FRAME), None)
