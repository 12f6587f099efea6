"""Read sinks, which store a step's result, with all synonyms of their fields."""

from __future__ import annotations

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import did_you_mean
from noetl_compiler.dialects.auth import auth_value
from noetl_compiler.dialects.construct_fields import ConstructFields
from noetl_compiler.dialects.fields import Fields, kind_of
from noetl_compiler.dialects.guards import read_guard
from noetl_compiler.graph import Guard, Sink, Span, Value
from noetl_compiler.language import sinks
from noetl_compiler.language.constructs.sinks import SINK
from noetl_compiler.language.words import SINK_LEVELS, SINK_MODES, SinkLevel
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode, string_node, value_of
from noetl_compiler.report import Report

__all__ = [
    "read_sink",
    "read_sinks",
    "sink_kind",
    "with_tool_fields",
]


def read_sinks(fields: Fields, report: Report, level: SinkLevel, *keys: str) -> tuple[Sink, ...]:
    """Read the ``sink`` of a step, one or a list of them."""
    node = fields.node_of(*(keys or ("sink", "save")))
    if isinstance(node, MappingNode) and node is fields.node.get("save") and not sink_kind(node):
        _warn_of_event_log_sink(node.span, report)  # the default of a save without a storage
        return ()
    items = node.items if isinstance(node, SequenceNode) else (node,) if node else ()
    optional_sinks = (read_sink(item, report, level) for item in items)
    return tuple(sink for sink in optional_sinks if sink is not None)


def read_sink(node: Node, report: Report, level: SinkLevel) -> Sink | None:
    """Read one sink."""
    if not isinstance(node, MappingNode):
        report.error(Code.WRONG_TYPE, node.span, f'"sink" must be a mapping, not {kind_of(node)}')
        return None
    fields = ConstructFields(_without_batch_flag(with_tool_fields(node), report), report, SINK)
    kind = fields.required_name(*sinks.KIND_KEYS)
    mode = fields.choice("mode", SINK_MODES)
    auth = fields.node_of(*sinks.AUTH_KEYS)
    level = fields.choice("level", SINK_LEVELS) or level
    config, guard = _read_config(fields), read_guard(fields) or _read_when(fields)
    fields.check_keys()
    if kind is None:
        return None
    if kind.text in sinks.EVENT_KINDS:
        _warn_of_event_log_sink(node.span, report)
        return None
    misspelt = "" if kind.text in report.tools else did_you_mean(kind.text, sinks.KINDS, cutoff=0.75)
    if misspelt:
        report.error(Code.UNKNOWN_TOOL, kind.span, f'unknown sink kind "{kind.text}"', misspelt)
    elif kind.text not in sinks.KINDS:
        message = f'a sink of kind "{kind.text}" is not supported: the playbook compiles, but a run is refused'
        report.warning(Code.NO_EXECUTOR, kind.span, message, f"the sinks are {', '.join(sorted(sinks.KINDS))}")
    return Sink(kind.text, config, node.span, auth_value(auth, kind.text), mode or "insert", level, guard)


def _without_batch_flag(node: MappingNode, report: Report) -> MappingNode:
    """Leave out ``batch: true``, which older sinks have beside ``chunk_size``."""
    batch = node.get("batch")
    if not isinstance(batch, ScalarNode) or not isinstance(batch.value, bool):
        return node
    message = f'"batch: {batch.text}" has no effect in a sink'
    report.warning(Code.IGNORED_FIELD, batch.span, message, "the rows of a sink are always stored in one transaction")
    return node.without("batch")


def _read_when(fields: ConstructFields) -> Guard | None:
    """Read ``when``, the guard of older sinks."""
    when = fields.condition("when")
    return Guard("ok", when) if when else None


def _warn_of_event_log_sink(span: Span, report: Report) -> None:
    message = "a sink into the event log has no effect"
    report.warning(Code.IGNORED_FIELD, span, message, "the event log records the result of every task anyway")


def sink_kind(node: MappingNode) -> str:
    """Return the kind of a sink, ``""`` if it names none."""
    fields = with_tool_fields(node)
    kinds = (fields.get(key) for key in sinks.KIND_KEYS)
    return next((kind.text for kind in kinds if isinstance(kind, ScalarNode)), "")


def with_tool_fields(node: MappingNode) -> MappingNode:
    """Merge the fields of ``tool: {kind, ...}`` and ``storage: {type, ...}`` into the sink itself."""
    tool = node.get("tool") or node.get("storage")
    if not isinstance(tool, MappingNode):
        return node
    other_entries = tuple(entry for entry in node.entries if entry[1] is not tool)
    return MappingNode((*tool.entries, *other_entries), node.span)


def _read_config(fields: Fields) -> Value:
    entries: list[tuple[ScalarNode, Node]] = []
    for name, spellings in sinks.VALUE_KEYS.items():
        node = fields.node_of(*spellings)
        if node is not None:
            entries.append((string_node(name, node.span), node))
    return value_of(MappingNode(tuple(entries), fields.span), literal_pointers={"/code"})
