"""Read a v1 step that only stores: ``type: save``, or a ``start`` or ``end`` with a ``save``.

A save into the event log becomes the step's result, as the event log has all results.
"""

from __future__ import annotations

from noetl_compiler.dialects.fields import Fields
from noetl_compiler.dialects.sinks import read_sink, sink_kind, with_tool_fields
from noetl_compiler.dialects.tasks import ParseContext
from noetl_compiler.dialects.values import condition
from noetl_compiler.graph import Guard, Sink, Value
from noetl_compiler.language.sinks import EVENT_KINDS, FLAT_KEYS, KIND_KEYS
from noetl_compiler.language.tools import V1_SAVE_KINDS
from noetl_compiler.nodes import MappingNode, Node, SequenceNode, string_node, value_of
from noetl_compiler.report import Report
from noetl_compiler.syntax import EMPTY_MAPPING, Name, Task

__all__ = ["read_save_step"]


def read_save_step(fields: Fields, step: Name, context: ParseContext) -> Task:
    """Return the task of such a step: a no-op with sinks."""
    result, guard = EMPTY_MAPPING, None
    sinks: list[Sink] = []
    for node in _read_stores(fields):
        if isinstance(node, MappingNode) and sink_kind(node) in EVENT_KINDS:
            result, guard = _read_event_log_save(node, context.report)
        elif (sink := read_sink(node, context.report, "attempt")) is not None:
            sinks.append(sink)
            result = _stored_result(node) if isinstance(node, MappingNode) else result
    label, kind = fields.name("name") or step, Name("noop", fields.span)
    return Task(label, kind, fields.span, config=result, guard=guard, sinks=tuple(sinks))


def _stored_result(node: MappingNode) -> Value:
    """Return the result of the step: a mapping of what was ``saved``, and the ``table``."""
    parts = {"saved": node.get("data") or node.get("args"), "table": node.get("table")}
    entries = tuple((string_node(name, part.span), part) for name, part in parts.items() if part is not None)
    if not entries:
        return EMPTY_MAPPING
    key = string_node("result", node.span)
    return value_of(MappingNode(((key, MappingNode(entries, node.span)),), node.span))


def _read_stores(fields: Fields) -> tuple[Node, ...]:
    """Return the saves: one, a list, or the fields of one directly on the step."""
    node = fields.node_of(*sorted(V1_SAVE_KINDS))
    if node is None:
        return (MappingNode(fields.take_remaining(FLAT_KEYS), fields.span),)
    return node.items if isinstance(node, SequenceNode) else (node,)


def _read_event_log_save(node: MappingNode, report: Report) -> tuple[Value, Guard | None]:
    fields = Fields(with_tool_fields(node), report, "a save into the event log")
    fields.take_remaining(KIND_KEYS)
    data, when = fields.node_of("data", "args", "payload", "with"), condition(fields.node_of("when"), report)
    others = (key.text for key, _ in fields.take_remaining(FLAT_KEYS))
    fields.ignore(*others, reason="the event log records the result of every task anyway")
    fields.check_keys()
    guard = Guard("ok", when) if when else None
    if data is None:
        return EMPTY_MAPPING, guard
    key = string_node("result", data.span)
    return value_of(MappingNode(((key, data),), data.span)), guard
