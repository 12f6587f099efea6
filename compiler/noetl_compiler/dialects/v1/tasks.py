"""Read the task of a v1 step: directly on the step, in its ``call``, or in the ``task`` of an iterator."""

from __future__ import annotations

from msgspec.structs import replace

from noetl_compiler.codes import Code
from noetl_compiler.dialects.fields import Fields, kind_of
from noetl_compiler.dialects.tasks import ParseContext, known_fields, read_task
from noetl_compiler.dialects.v1.outcomes import with_outcome
from noetl_compiler.dialects.v1.saves import read_save_step
from noetl_compiler.graph import Value
from noetl_compiler.language.tools import V1_KIND_KEYS, V1_KINDS, V1_MARKER_KINDS, V1_SAVE_KINDS
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode
from noetl_compiler.syntax import Name, Task
from noetl_compiler.value_merge import overlay

__all__ = ["read_call", "read_flat_task", "read_iterator_tasks"]


def read_call(node: Node, step: Name, context: ParseContext) -> tuple[Task, ...]:
    """Read ``call: {type, name | task | path, with}``; without a type, a workbook task or, by its path, a playbook."""
    if isinstance(node, ScalarNode):
        return (_workbook_call(Name(node.text, node.span)),)
    return _read_nested(node, "a call", step, context)


def read_iterator_tasks(fields: Fields, step: Name, element: str, context: ParseContext) -> tuple[Task, ...]:
    """Read the ``task`` of an iterator: a mapping, the name of a workbook task, or a list of either.

    The item is bound to ``value`` in Python code, unless the task binds that name itself.
    """
    node = fields.node_of("task", "tasks")
    if node is None:
        fields.report_missing("task")
        return ()
    nodes = node.items if isinstance(node, SequenceNode) else (node,)
    tasks = (task for item in nodes for task in _read_iterated_task(item, step, context))
    return tuple(_bind_item_as_value(task, element) if task.kind.text == "python" else task for task in tasks)


def _bind_item_as_value(task: Task, element: str) -> Task:
    value = Value({"value": f"{{{{ {element} }}}}"}, {"/value": task.span})
    return replace(task, input=overlay(value, task.input))


def _read_iterated_task(node: Node, step: Name, context: ParseContext) -> tuple[Task, ...]:
    if isinstance(node, ScalarNode):
        return (_workbook_call(Name(node.text, node.span)),)
    return _read_nested(node, "the task of an iterator", step, context)


def _workbook_call(called_name: Name) -> Task:
    return Task(called_name, Name("workbook", called_name.span), called_name.span, workbook=called_name)


def _read_nested(node: Node, description: str, step: Name, context: ParseContext) -> tuple[Task, ...]:
    if not isinstance(node, MappingNode):
        context.report.error(Code.WRONG_TYPE, node.span, f"{description} must be a mapping, not {kind_of(node)}")
        return ()
    fields = Fields(node, context.report, description)
    kind = fields.name(*V1_KIND_KEYS) or _infer_kind(fields)
    tasks = read_flat_task(fields, kind, step, context)
    tasks = with_outcome(tasks, fields)
    if not tasks:
        fields.report_missing("type")
    fields.check_keys(known_fields(kind, context.report.tools))
    return tasks


def read_flat_task(fields: Fields, kind: Name | None, step: Name, context: ParseContext) -> tuple[Task, ...]:
    """Read the task from the fields of a step. A step without a kind calls what it names, saves, or only routes."""
    kind = kind or _infer_kind(fields)
    if kind is None:
        return ()
    kind = Name(V1_KINDS.get(kind.text, kind.text), kind.span)
    if kind.text in V1_SAVE_KINDS or (kind.text in V1_MARKER_KINDS and not V1_SAVE_KINDS.isdisjoint(_keys(fields))):
        return (read_save_step(fields, step, context),)
    task = read_task(fields, kind, _label(fields, kind, step, context), context)
    return (task,) if task else ()


def _infer_kind(fields: Fields) -> Name | None:
    """Infer a missing kind: a playbook from its path, a workbook task from its name, a no-op from a sink."""
    keys = _keys(fields)
    kind = "playbook" if "path" in keys else "workbook" if keys & {"name", "task"} else ""
    kind = kind or ("save" if keys & V1_SAVE_KINDS else "")
    return Name(kind, fields.span) if kind else None


def _keys(fields: Fields) -> frozenset[str]:
    return frozenset(key.text for key, _ in fields.node.entries)


def _label(fields: Fields, kind: Name, step: Name, context: ParseContext) -> Name:
    """Return the label of a task: its own name, which is that of the workbook task if it calls one."""
    if kind.text == "workbook":
        return fields.name("name", "task") or step
    tool = context.report.tools.get(kind.text)
    return step if tool and "name" in tool.field_names else fields.name("name") or step
