"""Read the actions of a ``case`` rule: its ``then``, which is a mapping or a list of mappings.

next: x | [x, y] | [{step, args}] | {next: [...]}     the next steps; ``- step: x`` in a list is the same
set, vars: {name: value} | {ctx: {...}} | [{name, value}]
result: {from: name} | value                           the result of the step
fail: message, skip: true
collect: {from, into, mode}                            adds a value to a name
collect: {strategy, path, into}                        adds a page to the results of repeated calls
retry: {max_attempts, initial_delay, ..., args | params | url ...}
call: {step, args} | {args}                            another step in parallel to the route, or this call again
sink: {...}
any_name: {tool: {kind, ...}}                          a task of that name
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from noetl_compiler.codes import Code
from noetl_compiler.dialects.case.collect import read_collect_action
from noetl_compiler.dialects.case.repetitions import CallRepetition, read_call_action, read_retry_action
from noetl_compiler.dialects.fields import Fields, kind_of
from noetl_compiler.dialects.routes import read_next
from noetl_compiler.dialects.sinks import read_sinks
from noetl_compiler.dialects.tasks import ParseContext, read_tool
from noetl_compiler.dialects.values import assigns
from noetl_compiler.graph import Assign, Collect, Sink, Value
from noetl_compiler.language import keys
from noetl_compiler.language.sinks import EVENT_KINDS, TRANSACTIONAL_KINDS
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode, string_node, value_of
from noetl_compiler.syntax import Arc, Name, Task

__all__ = ["Actions", "read_actions"]

_SCOPES = frozenset({"ctx", "vars", "workload"})
_KEYS = ("next", "step", "set", "vars", "result", "fail", "skip", "collect", "retry", "call", "sink")


class Actions(msgspec.Struct):
    """The actions of one rule. ``next`` are its targets, and ``parallel`` steps that run in parallel to them.
    ``failure`` is the message with which the step fails.
    """

    next: tuple[Arc, ...] = ()
    parallel: tuple[Arc, ...] = ()
    set: tuple[Assign, ...] = ()
    result: Value | None = None
    failure: Value | None = None
    skip: bool = False
    repetition: CallRepetition | None = None
    collect: Collect | None = None
    sinks: tuple[Sink, ...] = ()
    tasks: tuple[Task, ...] = ()

    @property
    def needs_call(self) -> bool:
        """Whether an action depends on a call: it decides what follows the call, or reads its outcome."""
        handles_result = self.sinks or self.tasks or self.result or self.failure or self.collect
        return bool(handles_result) or self.skip or self.repetition is not None


def read_actions(node: Node, kind: str, context: ParseContext, labels: set[str]) -> Actions:
    """Read the actions of a rule. ``kind`` is that of the step's tool, ``labels`` the names of its tasks so far."""
    actions = Actions()
    for item in node.items if isinstance(node, SequenceNode) else (node,):
        if isinstance(item, MappingNode):
            _read_action(Fields(item, context.report, "an action"), actions, kind, context, labels)
        else:
            context.report.error(Code.WRONG_TYPE, item.span, f"an action must be a mapping, not {kind_of(item)}")
    return actions


def _read_action(fields: Fields, actions: Actions, kind: str, context: ParseContext, labels: set[str]) -> None:
    report = context.report
    actions.next += _read_targets(fields)
    actions.set += (*_read_assignments(fields, "set"), *_read_assignments(fields, "vars"))
    actions.result = _read_result(fields) or actions.result
    actions.failure = _read_failure(fields) or actions.failure
    actions.skip = bool(fields.flag("skip")) or actions.skip
    actions.repetition = read_retry_action(fields, kind) or actions.repetition
    parallel, repeated_call = read_call_action(fields, kind)
    actions.parallel += parallel
    actions.repetition = actions.repetition or repeated_call
    tools, sinks = _split_sinks(fields)
    actions.sinks += read_sinks(sinks, report, "attempt") if sinks else ()
    for name, tool in tools:
        actions.tasks += tuple(replace(task, span=name.span) for task in _read_named_task(name, tool, context, labels))
    assignments, collect = read_collect_action(fields)
    actions.set, actions.collect = (*actions.set, *assignments), collect or actions.collect
    fields.ignore("log", reason="the event log records what a run did")
    for key, body in fields.take_remaining(None):
        actions.tasks += _read_named_task(key, body, context, labels)
    fields.check_keys(_KEYS)


def _read_targets(fields: Fields) -> tuple[Arc, ...]:
    """Read ``next``, or ``step`` with ``args`` as the action itself."""
    nodes: list[Node] = []
    node = fields.node_of("next")
    while isinstance(node, MappingNode) and node.get("step") is None and (inner := node.get("next")):
        node = inner
    if node is not None:
        nodes.append(node)
    if "step" in fields:
        entries = tuple(entry for entry in fields.node.entries if entry[0].text in ("step", *keys.INPUT))
        fields.node_of("step")
        fields.node_of(*keys.INPUT)
        nodes.append(MappingNode(entries, fields.span))
    routes = [read_next(node, fields.report) for node in nodes]
    return tuple(arc for route in routes if route for group in route.groups for arc in group)


def _read_assignments(fields: Fields, key: str) -> tuple[Assign, ...]:
    node = fields.node_of(key)
    if isinstance(node, SequenceNode):
        pairs = (_read_pair(item, fields) for item in node.items)
        node = MappingNode(tuple(pair for pair in pairs if pair is not None), node.span)
    elif node is not None:
        node = fields.mapping(key)
    if node is None:
        return ()
    flat = MappingNode(tuple(entry for pair in node.entries for entry in _flatten_scope(*pair)), node.span)
    return assigns(flat, "ctx", fields.report)


def _read_pair(node: Node, fields: Fields) -> tuple[ScalarNode, Node] | None:
    """Convert ``{name, value}`` to an entry of a mapping."""
    if not isinstance(node, MappingNode):
        fields.report.error(Code.WRONG_TYPE, node.span, f"expected {{name, value}}, not {kind_of(node)}")
        return None
    pair = Fields(node, fields.report, "an assignment")
    name, value = pair.scalar("name", "key"), pair.node_of("value")
    for key, field_node in (("name", name), ("value", value)):
        if field_node is None:
            pair.report_missing(key)
    pair.check_keys()
    return (name, value) if name and value else None


def _flatten_scope(key: ScalarNode, node: Node) -> tuple[tuple[ScalarNode, Node], ...]:
    """Convert ``ctx: {a: 1}`` and ``ctx.a: 1`` to ``a: 1``."""
    head, dot, tail = key.text.partition(".")
    if key.text in _SCOPES and isinstance(node, MappingNode):
        return node.entries
    if key.text == "iter" and isinstance(node, MappingNode):
        return tuple((replace(inner_key, text=f"iter.{inner_key.text}"), item) for inner_key, item in node.entries)
    return ((replace(key, text=tail) if dot and head in _SCOPES else key, node),)


def _split_sinks(fields: Fields) -> tuple[list[tuple[ScalarNode, Node]], Fields | None]:
    """Split ``sink`` into sinks of tools that store no rows, returned as named tasks, and those that store rows."""
    node = fields.node_of("sink", "save")
    nodes = node.items if isinstance(node, SequenceNode) else (node,) if node else ()
    tools = [
        node for node in nodes if _sink_kind(node) in fields.report.tools.keys() - TRANSACTIONAL_KINDS - EVENT_KINDS
    ]
    stores = tuple(node for node in nodes if node not in tools)
    key = string_node("sink", fields.span)
    sinks = Fields(MappingNode(((key, SequenceNode(stores, fields.span)),), fields.span), fields.report, "an action")
    return [(replace(key, span=node.span), _as_tool(node)) for node in tools], sinks if stores else None


def _sink_kind(node: Node) -> str:
    tool = node.get("tool") if isinstance(node, MappingNode) else None
    kind = tool.get("kind") if isinstance(tool, MappingNode) else tool
    return kind.text if isinstance(kind, ScalarNode) else ""


def _as_tool(node: Node) -> Node:
    """Convert ``{tool: python, code: ...}`` to ``{tool: {kind: python, code: ...}}``."""
    if not isinstance(node, MappingNode) or not isinstance(kind := node.get("tool"), ScalarNode):
        return node
    others = node.without("tool").entries
    body = MappingNode(((string_node("kind", kind.span), kind), *others), node.span)
    return MappingNode(((string_node("tool", kind.span), body),), node.span)


def _read_result(fields: Fields) -> Value | None:
    node = fields.node_of("result")
    if node is None:
        return None
    source = node.get("from") if isinstance(node, MappingNode) and len(node.entries) == 1 else None
    if isinstance(source, ScalarNode) and source.template_span is None:
        return Value(f"{{{{ {source.text} }}}}", {"": source.span})
    return value_of(source or node)


def _read_failure(fields: Fields) -> Value | None:
    """Read ``fail``: true, a message, or ``{message}``."""
    node = fields.node_of("fail")
    if isinstance(node, MappingNode):
        failure = Fields(node, fields.report, '"fail"')
        node = failure.node_of("message")
        failure.check_keys()
        return value_of(node) if node else Value(True)
    return None if node is None or value_of(node).data is False else value_of(node)


def _read_named_task(key: ScalarNode, body: Node, context: ParseContext, labels: set[str]) -> tuple[Task, ...]:
    """Read ``name: {tool: {kind, ...}}``; a name that the step already uses gets a number."""
    tool = body.get("tool") if isinstance(body, MappingNode) else None
    if not isinstance(body, MappingNode) or tool is None:
        message = f'unknown key "{key.text}" in an action'
        hint = "an action is one of " + ", ".join(f'"{name}"' for name in _KEYS) + ", or a task with a tool"
        context.report.error(Code.UNKNOWN_KEY, key.span, message, hint)
        return ()
    if isinstance(tool, MappingNode):
        tool = MappingNode((*tool.entries, *body.without("tool", "desc").entries), tool.span)
    name = _unused_label(key.text, labels)
    tasks = read_tool(tool, Name(name, key.span), context)
    return tuple(replace(task, label=Name(name, key.span)) for task in tasks[:1])


def _unused_label(name: str, labels: set[str]) -> str:
    label, number = name, 1
    while label in labels:
        number += 1
        label = f"{name}_{number}"
    labels.add(label)
    return label
