"""Tasks and sinks in v10: ``{name, kind, ...}``."""

from __future__ import annotations

from noetl_compiler.dialects.tasks import label_of_only_task
from noetl_compiler.graph import Sink
from noetl_compiler.language import keys
from noetl_compiler.language.constructs.calls import LABEL, TASK, TASK_SPEC
from noetl_compiler.language.constructs.sinks import SINK
from noetl_compiler.migration.context import MigrationContext, mapping, unless_empty
from noetl_compiler.migration.entries import Entries
from noetl_compiler.migration.guards import emit_guard
from noetl_compiler.migration.outputs import emit_output
from noetl_compiler.migration.policies import emit_policy
from noetl_compiler.migration.source_lookup import NO_SPAN, Entry, SourceMapping, scalar
from noetl_compiler.migration.values import emit_assigns, emit_auth, emit_names
from noetl_compiler.nodes import MappingNode, Node, SequenceNode
from noetl_compiler.syntax import Step, Task

__all__ = ["emit_sinks", "emit_tool", "emit_workbook"]

_NAMED_KINDS = frozenset({"workbook", "secrets"})
"""Kinds whose ``name`` is not the name of the task."""


def emit_tool(context: MigrationContext, outer: SourceMapping, step: Step) -> Node | None:
    """Return the ``tool`` of a step: one mapping, or a list of them. A list with one task stays a list."""
    if not step.tasks:
        return None
    tool_entry = outer.entry("tool")
    if len(step.tasks) == 1 and not (tool_entry and isinstance(tool_entry[1], SequenceNode)):
        return _task(context, outer, step.tasks[0], label_of_only_task(step.name, context.playbook.dialect))
    tasks = (_task(context, outer, task, f"task_{index}") for index, task in enumerate(step.tasks))
    return SequenceNode(tuple(tasks), NO_SPAN)


def emit_workbook(context: MigrationContext) -> Node | None:
    """Return the workbook, a list of ``{name, tool}``."""
    tasks = tuple(_workbook_task(context, task) for task in context.playbook.workbook)
    return SequenceNode(tasks, NO_SPAN) if tasks else None


def _workbook_task(context: MigrationContext, task: Task) -> MappingNode:
    name, outer = task.label, context.source_lookup.parent_of(task.label.span)
    tool = _task(context, outer or context.source_lookup.root, task, name.text)
    return mapping(
        (scalar("name"), scalar(name.text, name.span)),
        *_description(outer),
        (outer.key("tool") if outer else scalar("tool"), tool),
    )


def _description(origin: SourceMapping | None) -> tuple[Entry, ...]:
    """Return the original description of a task, which is not part of the syntax tree."""
    entry = origin.entry("desc", "description") if origin else None
    return (entry,) if entry else ()


def _task(context: MigrationContext, outer: SourceMapping, task: Task, default_name: str = "") -> MappingNode:
    """Return a task with all its keys. A single task is named only if its name is not the default."""
    origin = context.source_lookup.mapping_at(task.span, outer)
    name_key = "label" if task.kind.text in _NAMED_KINDS else "name"
    has_name = task.label.text != default_name
    if has_name and name_key == "label" and LABEL.extension:
        context.note_extension(LABEL.extension, task.label.span)
    return mapping(
        (scalar(name_key), scalar(task.label.text, task.label.span) if has_name else None),
        *(_description(origin) if origin.span != outer.span else ()),
        (scalar("kind"), scalar(task.kind.text, task.kind.span)),
        (origin.key("name", "task"), scalar(task.workbook.text, task.workbook.span) if task.workbook else None),
        (origin.key(*keys.AUTH), emit_auth(origin, task.auth, task.kind.text)),
        (origin.key(*keys.INPUT), emit_names(origin, task.input, *keys.INPUT, "data")),
        *origin.entries(task.config),
        *_common_entries(context, origin, task),
    )


def _common_entries(context: MigrationContext, origin: SourceMapping, task: Task) -> tuple[Entry, ...]:
    """Return the entries that tasks of every kind may have; they follow the fields of the tool."""
    entries = Entries(context, TASK, origin, task.span)
    entries.add_timeout(task.timeout)
    entries.add_node("output", emit_output(context, origin, task.output), "result")
    entries.add_node(
        "sink", emit_sinks(context, origin, task.sinks), "save", note_spans=[sink.span for sink in task.sinks]
    )
    entries.add_node("guard", emit_guard(context, origin, task.guard), key_span=NO_SPAN)
    entries.add_node("set", emit_assigns(context, origin, task.set), "set_ctx", "set_iter")
    entries.add_node("spec", _spec(context, origin, task), "retry")
    if origin.span == task.span:
        entries.copy_verbatim(origin)
    return entries.mapping().entries


def _spec(context: MigrationContext, origin: SourceMapping, task: Task) -> MappingNode | None:
    key = task.idempotency_key
    entries = Entries(context, TASK_SPEC, origin, task.span)
    entries.add_node("policy", emit_policy(context, origin, task.policy))
    entries.add_scalar("idempotent", task.idempotent)
    entries.add_node("idempotency_key", scalar(key.text, key.span) if key else None)
    return unless_empty(entries.mapping())


def emit_sinks(context: MigrationContext, outer: SourceMapping, sinks: tuple[Sink, ...]) -> Node | None:
    """Return ``sink``: one sink, or a list of them."""
    nodes = tuple(_sink(context, context.source_lookup.mapping_at(sink.span, outer), sink) for sink in sinks)
    return nodes[0] if len(nodes) == 1 else SequenceNode(nodes, NO_SPAN) if nodes else None


def _sink(context: MigrationContext, origin: SourceMapping, sink: Sink) -> MappingNode:
    entries = Entries(context, SINK, origin, sink.span)
    entries.add_node("kind", origin.scalar(sink.kind, "kind", "tool", "type", "storage"), key_span=sink.span)
    entries.add_node("auth", emit_auth(origin, sink.auth, sink.kind), *keys.AUTH)
    for key, node in origin.entries(sink.config):
        entries.add_node(key.text, node, key_span=key.span)
    entries.add_scalar("mode", sink.mode)
    entries.add_scalar("level", sink.level, key_span=NO_SPAN)
    entries.add_node("guard", emit_guard(context, origin, sink.guard), key_span=NO_SPAN)
    return entries.mapping()
