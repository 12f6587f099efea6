"""Sinks: where a step's result is stored, under all the names their fields ever had."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import nearest
from noetl_compiler.dialects.auth import auth_value
from noetl_compiler.dialects.fields import Fields, kind_of
from noetl_compiler.dialects.guards import read_guard
from noetl_compiler.dialects.values import condition
from noetl_compiler.graph import Guard, Sink, Span, Value
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode, value_of
from noetl_compiler.report import Report
from noetl_compiler.tools import KINDS

__all__ = [
    "EVENT_KINDS",
    "KIND_KEYS",
    "SINK_FIELDS",
    "SINK_KINDS",
    "Level",
    "Mode",
    "read_sink",
    "read_sinks",
    "sink_kind",
    "with_tool_fields",
]

Level = Literal["attempt", "task"]
Mode = Literal["insert", "append", "upsert", "replace", "merge"]

_STORES = frozenset({"postgres", "duckdb"})
SINK_KINDS = _STORES | {"http", "python"}
EVENT_KINDS = frozenset({"", "event", "event_log"})
"""Kinds that mean the event log, as a v1 ``save`` without any does."""

KIND_KEYS = ("tool", "type", "kind", "storage", "backend")
"""Where a sink may say what it stores in."""

_AUTH = ("auth", "credential", "connection")

_MODES: Mapping[str, Mode] = MappingProxyType(
    {
        "insert": "insert",
        "append": "append",
        "upsert": "upsert",
        "update": "upsert",
        "replace": "replace",
        "overwrite": "replace",
        "merge": "merge",
    }
)
_LEVELS: Mapping[str, Level] = MappingProxyType({"attempt": "attempt", "task": "task"})
_CONFIG: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "table": ("table",),
        "key": ("key", "keys", "key_columns"),
        "data": ("data", "args", "payload", "values", "with", "from"),
        "statement": ("statement", "command", "commands", "sql", "query"),
        "params": ("params",),
        "batch": ("batch", "chunk_size"),
        "url": ("url", "endpoint"),
        "method": ("method",),
        "headers": ("headers",),
        "code": ("code",),
        "database": ("database",),
    }
)
"""The name a sink's executor knows -> the names a playbook may use."""

_STORED = frozenset(name for spellings in _CONFIG.values() for name in spellings)
SINK_FIELDS = frozenset({*KIND_KEYS, *_AUTH, "mode", *_STORED}) - {"type", "kind"}
"""The fields of a sink that stands flat on a v1 step."""


def read_sinks(fields: Fields, report: Report, level: Level, *keys: str) -> tuple[Sink, ...]:
    """The ``sink`` of a step, one or a list of them."""
    found = fields.node_of(*(keys or ("sink", "save")))
    if isinstance(found, MappingNode) and found is fields.node.get("save") and not sink_kind(found):
        _tell_of_event_log(found.span, report)  # where a save without a storage went
        return ()
    nodes = found.items if isinstance(found, SequenceNode) else (found,) if found else ()
    sinks = (read_sink(node, report, level) for node in nodes)
    return tuple(sink for sink in sinks if sink is not None)


def read_sink(node: Node, report: Report, level: Level) -> Sink | None:
    """One sink out of its mapping."""
    if not isinstance(node, MappingNode):
        report.error(Code.WRONG_TYPE, node.span, f'"sink" must be a mapping, not {kind_of(node)}')
        return None
    fields = Fields(with_tool_fields(node), report, "a sink")
    kind = fields.required_name(*KIND_KEYS)
    mode = fields.choice("mode", _MODES)
    auth = fields.node_of(*_AUTH)
    level = fields.choice("level", _LEVELS) or level
    config, guard = _config(fields), read_guard(fields) or _read_when(fields)
    fields.ignore("concurrency", "name", why="the rows of one sink are stored in one go")
    fields.close()
    if kind is None:
        return None
    if kind.text in EVENT_KINDS:
        _tell_of_event_log(node.span, report)
        return None
    misspelt = "" if kind.text in KINDS else nearest(kind.text, SINK_KINDS, alike=0.75)
    if misspelt:
        report.error(Code.UNKNOWN_TOOL, kind.span, f'unknown sink kind "{kind.text}"', misspelt)
    elif kind.text not in _STORES:
        message = f'a sink of kind "{kind.text}" is not supported yet: the playbook compiles, but a run is refused'
        report.warning(Code.NO_EXECUTOR, kind.span, message)
    return Sink(kind.text, config, node.span, auth_value(auth, kind.text), mode or "insert", level, guard)


def _read_when(fields: Fields) -> Guard | None:
    """``when``, the guard of old sinks."""
    when = condition(fields.node_of("when"), fields.report)
    return Guard("ok", when) if when else None


def _tell_of_event_log(span: Span, report: Report) -> None:
    message = "a sink into the event log has no effect"
    report.warning(Code.IGNORED_FIELD, span, message, "the event log has the result of every task anyway")


def sink_kind(node: MappingNode) -> str:
    """The kind that a sink names, ``""`` when it names none."""
    inner = with_tool_fields(node)
    found = (inner.get(key) for key in KIND_KEYS)
    return next((kind.text for kind in found if isinstance(kind, ScalarNode)), "")


def with_tool_fields(node: MappingNode) -> MappingNode:
    """``tool: {kind, ...}`` and ``storage: {type, ...}`` count as their fields standing in the sink itself."""
    tool = node.get("tool") or node.get("storage")
    if not isinstance(tool, MappingNode):
        return node
    outer = tuple(entry for entry in node.entries if entry[1] is not tool)
    return MappingNode((*tool.entries, *outer), node.span)


def _config(fields: Fields) -> Value:
    entries: list[tuple[ScalarNode, Node]] = []
    for name, spellings in _CONFIG.items():
        found = fields.node_of(*spellings)
        if found is not None:
            entries.append((_key(name, found), found))
    return value_of(MappingNode(tuple(entries), fields.span), literal={"/code"})


def _key(name: str, node: Node) -> ScalarNode:
    return ScalarNode(name, name, node.span, "plain")
