"""Loops in v10: in, iterator, spec."""

from __future__ import annotations

from noetl_compiler import graph
from noetl_compiler.graph import Cursor
from noetl_compiler.language import defaults
from noetl_compiler.language.constructs.loops import CURSOR, FRAME, LOOP, LOOP_FAILURE, LOOP_POLICY, LOOP_SPEC
from noetl_compiler.migration.context import MigrationContext, mapping, unless_empty
from noetl_compiler.migration.entries import Entries
from noetl_compiler.migration.routes import emit_next
from noetl_compiler.migration.source_lookup import NO_SPAN, SourceMapping, scalar
from noetl_compiler.migration.values import emit_condition, emit_value
from noetl_compiler.nodes import MappingNode, Node
from noetl_compiler.syntax import Loop

__all__ = ["emit_loop"]

_FRAME = "frame"


def emit_loop(context: MigrationContext, step: SourceMapping, loop: Loop) -> MappingNode:
    """Return the loop of a step."""
    body, origin = loop.body, context.source_lookup.mapping_at(loop.body.span, step)
    entries = Entries(context, LOOP, origin, body.span)
    entries.add_value("in", body.collection)
    entries.add_node("cursor", _cursor(context, origin, body.cursor) if body.cursor else None)
    entries.add_node("iterator", scalar(loop.element.text, loop.element.span))
    entries.add_node("where", emit_condition(body.where))
    entries.add_node("order_by", emit_condition(body.order_by))
    entries.add_value("limit", body.limit)
    entries.add_node("spec", _spec(context, origin, body))
    entries.add_node("next", emit_next(context, origin, loop.next) if loop.next else None)
    return entries.mapping()


def _cursor(context: MigrationContext, outer: SourceMapping, cursor: Cursor) -> MappingNode:
    """Return the cursor of a loop. Its configuration keeps the original order."""
    config_entries = [entry for entry in outer.entries(cursor.config) if entry[0].text != _FRAME]
    for extension in (CURSOR.by_name[key.text].extension for key, _ in config_entries):
        if extension is not None:
            context.note_extension(extension, cursor.span)
    return mapping(
        (scalar("kind", cursor.span), outer.scalar(cursor.kind, "kind")),
        (outer.key("auth", "credential"), emit_value(outer, cursor.auth, "auth", "credential")),
        *config_entries,
    )


def _spec(context: MigrationContext, origin: SourceMapping, body: graph.Loop) -> MappingNode:
    mode = "cursor" if body.cursor and body.mode == "parallel" else body.mode
    entries = Entries(context, LOOP_SPEC, origin, body.span)
    entries.add_node("mode", origin.scalar(mode, "mode"))
    entries.add_value("max_in_flight", body.max_in_flight)
    entries.add_value("chunk_size", body.chunk_size)
    entries.add_node(_FRAME, _frame(context, origin, body.frame) if body.frame else _cursor_frame(origin, body.cursor))
    entries.add_scalar("on_error", body.on_error)
    entries.add_node("policy", _policy(context, origin, body))
    return entries.mapping(origin.mapping_span("spec"))


def _policy(context: MigrationContext, origin: SourceMapping, body: graph.Loop) -> MappingNode | None:
    failure = Entries(context, LOOP_FAILURE, origin, body.span)
    failure.add_scalar("mode", body.failure, key_span=NO_SPAN)
    entries = Entries(context, LOOP_POLICY, origin, body.span)
    entries.add_node("failure", unless_empty(failure.mapping()), key_span=NO_SPAN)
    return unless_empty(entries.mapping())


def _frame(context: MigrationContext, origin: SourceMapping, frame: graph.Frame) -> MappingNode:
    entries = Entries(context, FRAME, context.source_lookup.mapping_at(frame.span, origin), frame.span)
    for name in defaults.FRAME:
        entries.add_value(name, getattr(frame, name))
    return entries.mapping(frame.span)


def _cursor_frame(origin: SourceMapping, cursor: Cursor | None) -> Node | None:
    config_entries = origin.entries(cursor.config) if cursor else []
    return next((node for key, node in config_entries if key.text == _FRAME), None)
