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
from noetl_compiler.migration.source_lookup import NOWHERE, Entry, Region, scalar
from noetl_compiler.migration.values import emit_assigns, emit_auth, emit_names
from noetl_compiler.nodes import MappingNode, Node, SequenceNode
from noetl_compiler.syntax import Step, Task

__all__ = ["emit_sinks", "emit_tool", "emit_workbook"]

_NAMED_KINDS = frozenset({"workbook", "secrets"})
"""Kinds whose ``name`` is not the name of the task."""


def emit_tool(context: MigrationContext, around: Region, step: Step) -> Node | None:
    """Return the ``tool`` of a step: one mapping, or a list of them. A list with one task stays a list."""
    if not step.tasks:
        return None
    own_tool = around.entry("tool")
    if len(step.tasks) == 1 and not (own_tool and isinstance(own_tool[1], SequenceNode)):
        return _task(context, around, step.tasks[0], label_of_only_task(step.name, context.playbook.dialect))
    tasks = (_task(context, around, task, f"task_{index}") for index, task in enumerate(step.tasks))
    return SequenceNode(tuple(tasks), NOWHERE)


def emit_workbook(context: MigrationContext) -> Node | None:
    """Return the workbook, a list of ``{name, tool}``."""
    tasks = tuple(_workbook_task(context, task) for task in context.playbook.workbook)
    return SequenceNode(tasks, NOWHERE) if tasks else None


def _workbook_task(context: MigrationContext, task: Task) -> MappingNode:
    name, outer = task.label, context.origins.around(task.label.span)
    tool = _task(context, outer or context.origins.root, task, name.text)
    return mapping(
        (scalar("name"), scalar(name.text, name.span)),
        *_description(outer),
        (outer.key("tool") if outer else scalar("tool"), tool),
    )


def _description(region: Region | None) -> tuple[Entry, ...]:
    """Return the original description of a task, which is not part of the syntax tree."""
    entry = region.entry("desc", "description") if region else None
    return (entry,) if entry else ()


def _task(context: MigrationContext, around: Region, task: Task, default_name: str = "") -> MappingNode:
    """Return a task with all its keys. A single task is named only if its name is not the default."""
    region = context.origins.region(task.span, around)
    name_key = "label" if task.kind.text in _NAMED_KINDS else "name"
    has_name = task.label.text != default_name
    if has_name and name_key == "label" and LABEL.extension:
        context.extend(LABEL.extension, task.label.span)
    return mapping(
        (scalar(name_key), scalar(task.label.text, task.label.span) if has_name else None),
        *(_description(region) if region.span != around.span else ()),
        (scalar("kind"), scalar(task.kind.text, task.kind.span)),
        (region.key("name", "task"), scalar(task.workbook.text, task.workbook.span) if task.workbook else None),
        (region.key(*keys.AUTH), emit_auth(region, task.auth, task.kind.text)),
        (region.key(*keys.INPUT), emit_names(region, task.input, *keys.INPUT, "data")),
        *region.entries(task.config),
        *_common_entries(context, region, task),
    )


def _common_entries(context: MigrationContext, region: Region, task: Task) -> tuple[Entry, ...]:
    """Return the entries that tasks of every kind may have; they follow the fields of the tool."""
    entries = Entries(context, TASK, region, task.span)
    entries.timeout(task.timeout)
    entries.node("output", emit_output(context, region, task.output), "result")
    entries.node("sink", emit_sinks(context, region, task.sinks), "save", of=[sink.span for sink in task.sinks])
    entries.node("guard", emit_guard(context, region, task.guard), at=NOWHERE)
    entries.node("set", emit_assigns(context, region, task.set), "set_ctx", "set_iter")
    entries.node("spec", _spec(context, region, task), "retry")
    if region.span == task.span:
        entries.verbatim(region)
    return entries.mapping().entries


def _spec(context: MigrationContext, region: Region, task: Task) -> MappingNode | None:
    key = task.idempotency_key
    entries = Entries(context, TASK_SPEC, region, task.span)
    entries.node("policy", emit_policy(context, region, task.policy))
    entries.plain("idempotent", task.idempotent)
    entries.node("idempotency_key", scalar(key.text, key.span) if key else None)
    return unless_empty(entries.mapping())


def emit_sinks(context: MigrationContext, around: Region, sinks: tuple[Sink, ...]) -> Node | None:
    """Return ``sink``: one sink, or a list of them."""
    nodes = tuple(_sink(context, context.origins.region(sink.span, around), sink) for sink in sinks)
    return nodes[0] if len(nodes) == 1 else SequenceNode(nodes, NOWHERE) if nodes else None


def _sink(context: MigrationContext, region: Region, sink: Sink) -> MappingNode:
    entries = Entries(context, SINK, region, sink.span)
    entries.node("kind", region.scalar(sink.kind, "kind", "tool", "type", "storage"), at=sink.span)
    entries.node("auth", emit_auth(region, sink.auth, sink.kind), *keys.AUTH)
    for key, node in region.entries(sink.config):
        entries.node(key.text, node, at=key.span)
    entries.plain("mode", sink.mode)
    entries.plain("level", sink.level, at=NOWHERE)
    entries.node("guard", emit_guard(context, region, sink.guard), at=NOWHERE)
    return entries.mapping()
