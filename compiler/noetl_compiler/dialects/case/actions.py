"""Read the actions of a ``case`` rule: ``then``, one mapping or a list of them, into one record.

next: x | [x, y] | [{step, args}] | {next: [...]}     leads on; ``- step: x`` in a list says the same
set, vars: {name: value} | {ctx: {...}} | [{name, value}]
result: {from: name} | value                           is the step's result
fail: message, skip: true
collect: {from, into, mode}                            adds a value to a name
collect: {strategy, path, into}                        adds a page to what repeated calls gather
retry: {max_attempts, initial_delay, ..., args | params | url ...}
call: {step, args} | {args}                            another step in parallel to the route, or this call again
sink: {...}
any_name: {tool: {kind, ...}}                          a task of that name
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from noetl_compiler.codes import Code
from noetl_compiler.dialects.case.collect import read_collecting
from noetl_compiler.dialects.case.repeats import Repeat, read_call, read_repeat
from noetl_compiler.dialects.fields import Fields, kind_of
from noetl_compiler.dialects.routes import read_next
from noetl_compiler.dialects.sinks import read_sinks
from noetl_compiler.dialects.tasks import ParseContext, read_tool
from noetl_compiler.dialects.values import assigns
from noetl_compiler.graph import Assign, Collect, Sink, Value
from noetl_compiler.language import keys
from noetl_compiler.language.sinks import EVENT_KINDS, STORES
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode, value_of
from noetl_compiler.syntax import Arc, Name, Task

__all__ = ["Actions", "read_actions"]

_OUTER_NAMES = frozenset({"ctx", "vars", "workload"})
_KNOWN = ("next", "step", "set", "vars", "result", "fail", "skip", "collect", "retry", "call", "sink")


class Actions(msgspec.Struct):
    """The actions of one rule. ``beside``: steps that run in parallel to its targets; ``failure``: a message."""

    next: tuple[Arc, ...] = ()
    beside: tuple[Arc, ...] = ()
    set: tuple[Assign, ...] = ()
    result: Value | None = None
    failure: Value | None = None
    skip: bool = False
    repeat: Repeat | None = None
    collect: Collect | None = None
    sinks: tuple[Sink, ...] = ()
    tasks: tuple[Task, ...] = ()

    @property
    def needs_call(self) -> bool:
        """Whether an action depends on a call: it decides what follows the call, or reads its outcome."""
        works = self.sinks or self.tasks or self.result or self.failure or self.collect
        return bool(works) or self.skip or self.repeat is not None


def read_actions(node: Node, kind: str, around: ParseContext, labels: set[str]) -> Actions:
    """Read the actions of a rule. ``kind``: of the step's tool; ``labels``: the names of its tasks so far."""
    found = Actions()
    for item in node.items if isinstance(node, SequenceNode) else (node,):
        if isinstance(item, MappingNode):
            _read_action(Fields(item, around.report, "an action"), found, kind, around, labels)
        else:
            around.report.error(Code.WRONG_TYPE, item.span, f"an action must be a mapping, not {kind_of(item)}")
    return found


def _read_action(fields: Fields, found: Actions, kind: str, around: ParseContext, labels: set[str]) -> None:
    report = around.report
    found.next += _targets(fields)
    found.set += (*_sets(fields, "set"), *_sets(fields, "vars"))
    found.result = _result(fields) or found.result
    found.failure = _failure(fields) or found.failure
    found.skip = bool(fields.flag("skip")) or found.skip
    found.repeat = read_repeat(fields, kind) or found.repeat
    beside, again = read_call(fields, kind)
    found.beside += beside
    found.repeat = found.repeat or again
    tools, sinks = _sinks(fields)
    found.sinks += read_sinks(sinks, report, "attempt") if sinks else ()
    for name, tool in tools:
        found.tasks += tuple(replace(task, span=name.span) for task in _named_task(name, tool, around, labels))
    assigned, gathered = read_collecting(fields)
    found.set, found.collect = (*found.set, *assigned), gathered or found.collect
    fields.ignore("log", why="the event log records what a run did")
    for key, body in fields.rest(None):
        found.tasks += _named_task(key, body, around, labels)
    fields.close(_KNOWN)


def _targets(fields: Fields) -> tuple[Arc, ...]:
    """Read ``next``, or ``step`` with ``args`` as the action itself."""
    nodes: list[Node] = []
    found = fields.node_of("next")
    while isinstance(found, MappingNode) and found.get("step") is None and (inner := found.get("next")):
        found = inner
    if found is not None:
        nodes.append(found)
    if "step" in fields:
        entries = tuple(entry for entry in fields.node.entries if entry[0].text in ("step", *keys.INPUT))
        fields.node_of("step")
        fields.node_of(*keys.INPUT)
        nodes.append(MappingNode(entries, fields.span))
    following = [read_next(node, fields.report) for node in nodes]
    return tuple(arc for one in following if one for group in one.groups for arc in group)


def _sets(fields: Fields, key: str) -> tuple[Assign, ...]:
    found = fields.node_of(key)
    if isinstance(found, SequenceNode):
        pairs = (_pair(item, fields) for item in found.items)
        found = MappingNode(tuple(pair for pair in pairs if pair is not None), found.span)
    elif found is not None:
        found = fields.mapping(key)
    if found is None:
        return ()
    flat = MappingNode(tuple(entry for pair in found.entries for entry in _unwrapped(*pair)), found.span)
    return assigns(flat, "ctx", fields.report)


def _pair(node: Node, fields: Fields) -> tuple[ScalarNode, Node] | None:
    """Convert ``{name, value}`` to an entry of a mapping."""
    if not isinstance(node, MappingNode):
        fields.report.error(Code.WRONG_TYPE, node.span, f"expected {{name, value}}, not {kind_of(node)}")
        return None
    inner = Fields(node, fields.report, "an assignment")
    name, value = inner.scalar("name", "key"), inner.node_of("value")
    for key, part in (("name", name), ("value", value)):
        if part is None:
            inner.missing(key)
    inner.close()
    return (name, value) if name and value else None


def _unwrapped(key: ScalarNode, node: Node) -> tuple[tuple[ScalarNode, Node], ...]:
    """``ctx: {a: 1}`` sets ``a``, and so does ``ctx.a: 1``."""
    head, dot, tail = key.text.partition(".")
    if key.text in _OUTER_NAMES and isinstance(node, MappingNode):
        return node.entries
    if key.text == "iter" and isinstance(node, MappingNode):
        return tuple((replace(inner, text=f"iter.{inner.text}"), item) for inner, item in node.entries)
    return ((replace(key, text=tail) if dot and head in _OUTER_NAMES else key, node),)


def _sinks(fields: Fields) -> tuple[list[tuple[ScalarNode, Node]], Fields | None]:
    """Split sinks into those that only run a tool, as named tasks, and the others, which store rows with the call."""
    found = fields.node_of("sink", "save")
    nodes = found.items if isinstance(found, SequenceNode) else (found,) if found else ()
    tools = [node for node in nodes if _sink_kind(node) in fields.report.tools.keys() - STORES - EVENT_KINDS]
    rest = tuple(node for node in nodes if node not in tools)
    key = ScalarNode("sink", "sink", fields.span, "plain")
    sinks = Fields(MappingNode(((key, SequenceNode(rest, fields.span)),), fields.span), fields.report, "an action")
    return [(replace(key, span=node.span), _as_tool(node)) for node in tools], sinks if rest else None


def _sink_kind(node: Node) -> str:
    tool = node.get("tool") if isinstance(node, MappingNode) else None
    kind = tool.get("kind") if isinstance(tool, MappingNode) else tool
    return kind.text if isinstance(kind, ScalarNode) else ""


def _as_tool(node: Node) -> Node:
    """``{tool: python, code: ...}`` as ``{tool: {kind: python, code: ...}}``."""
    if not isinstance(node, MappingNode) or not isinstance(kind := node.get("tool"), ScalarNode):
        return node
    others = tuple(entry for entry in node.entries if entry[0].text != "tool")
    body = MappingNode(((ScalarNode("kind", "kind", kind.span, "plain"), kind), *others), node.span)
    return MappingNode(((ScalarNode("tool", "tool", kind.span, "plain"), body),), node.span)


def _result(fields: Fields) -> Value | None:
    found = fields.node_of("result")
    if found is None:
        return None
    inner = found.get("from") if isinstance(found, MappingNode) and len(found.entries) == 1 else None
    if isinstance(inner, ScalarNode) and inner.template_span is None:
        return Value(f"{{{{ {inner.text} }}}}", {"": inner.span})
    return value_of(inner or found)


def _failure(fields: Fields) -> Value | None:
    """``fail: true``, a message, or ``{message}``."""
    found = fields.node_of("fail")
    if isinstance(found, MappingNode):
        inner = Fields(found, fields.report, '"fail"')
        found = inner.node_of("message")
        inner.close()
        return value_of(found) if found else Value(True)
    return None if found is None or value_of(found).data is False else value_of(found)


def _named_task(key: ScalarNode, body: Node, around: ParseContext, labels: set[str]) -> tuple[Task, ...]:
    """Read ``name: {tool: {kind, ...}}``; a name that the step already uses gets a number."""
    tool = body.get("tool") if isinstance(body, MappingNode) else None
    if not isinstance(body, MappingNode) or tool is None:
        message = f'unknown key "{key.text}" in an action'
        hint = "an action is one of " + ", ".join(f'"{name}"' for name in _KNOWN) + ", or a task with a tool"
        around.report.error(Code.UNKNOWN_KEY, key.span, message, hint)
        return ()
    outer = tuple(entry for entry in body.entries if entry[0].text not in ("tool", "desc"))
    if isinstance(tool, MappingNode):
        tool = MappingNode((*tool.entries, *outer), tool.span)
    name = _free_label(key.text, labels)
    tasks = read_tool(tool, Name(name, key.span), around)
    return tuple(replace(task, label=Name(name, key.span)) for task in tasks[:1])


def _free_label(wanted: str, labels: set[str]) -> str:
    label, number = wanted, 1
    while label in labels:
        number += 1
        label = f"{wanted}_{number}"
    labels.add(label)
    return label
