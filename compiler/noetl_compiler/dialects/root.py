"""Read a whole document. Only its steps differ between dialects; metadata, workload, keychain and executor do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from msgspec.structs import replace

from noetl_compiler.codes import Code
from noetl_compiler.control_characters import report_control_character
from noetl_compiler.diagnostics import Diagnostic, Severity
from noetl_compiler.dialects.construct_fields import ConstructFields
from noetl_compiler.dialects.executor import read_executor
from noetl_compiler.dialects.fields import Fields
from noetl_compiler.dialects.keychain import read_keychain
from noetl_compiler.dialects.reducers import with_reducers
from noetl_compiler.dialects.spec_defaults import with_defaults
from noetl_compiler.dialects.tasks import ParseContext, read_workbook
from noetl_compiler.dialects.values import merged_mappings
from noetl_compiler.graph import Priority, Value
from noetl_compiler.language.construct import Construct
from noetl_compiler.language.constructs.playbook import API_VERSIONS, FAIRNESS_WEIGHTS, METADATA, PLAYBOOK, PRIORITIES
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode, string_node, value_of
from noetl_compiler.syntax import Name, Playbook, Step, Task
from noetl_compiler.syntax_queries import called_task_names, choose_final_name
from noetl_compiler.value_merge import overlay

__all__ = ["ReadStep", "read_playbook"]

MAX_FAIRNESS_KEY_BYTES = 64
"""Temporal truncates longer keys."""

ReadStep: TypeAlias = Callable[[ConstructFields, Name, ParseContext], Step]


def read_playbook(root: MappingNode, context: ParseContext, step_construct: Construct, read_step: ReadStep) -> Playbook:
    """Read a document; ``read_step`` reads its steps, which are ``step_construct``."""
    fields = _RootFields(root, context.report, PLAYBOOK)
    _check_header(fields)
    metadata = ConstructFields.nested(fields, "metadata", METADATA)
    name, path, version = _read_identity(fields, metadata)
    executor = read_executor(fields, context)
    final = choose_final_name(executor.final, _step_names(fields, context))
    context = replace(context, dialect=executor.dialect or context.dialect, final=final)
    steps = _read_steps(fields, context, step_construct, read_step)
    workbook = _read_workbook(fields, context, steps)
    tasks = {task.label.text: task for task in workbook}
    playbook = Playbook(
        context.dialect,
        root.span,
        name,
        path,
        version,
        steps=tuple(with_reducers(with_defaults(step, tasks, executor.defaults), context.report) for step in steps),
        workbook=workbook,
        workload=_read_workload(fields),
        keychain=read_keychain(fields),
        entry=executor.entry,
        final=executor.final,
        no_next_is_error=executor.no_next_is_error,
        branch_failure=executor.branch_failure,
        on_failure=executor.on_failure,
        timeout=executor.timeout,
        priority=None if metadata is None else _read_priority(metadata),
    )
    if metadata is not None:
        metadata.check_keys()
    fields.check_keys()
    return playbook


class _RootFields(ConstructFields):
    """The keys of a playbook. The hint about an unknown key says where to put keys that only hold YAML anchors."""

    def _report_unknown(self, key: ScalarNode, hint: str) -> None:
        known_keys = ", ".join(
            known_key.name for known_key in PLAYBOOK.keys if not (known_key.deprecated or known_key.no_effect)
        )
        remedy = (
            'move it below "metadata", which takes any key, such as those of YAML anchors; '
            f"the keys here are {known_keys}"
        )
        super()._report_unknown(key, hint or remedy)


def _check_header(fields: Fields) -> None:
    """Warn of a missing header (NT104) and of an unknown apiVersion (NT106). Neither has an effect, so
    they are not errors.
    """
    version = fields.scalar("apiVersion")
    if version is not None and version.text not in API_VERSIONS:
        message = f'unknown apiVersion "{version.text}"'
        fields.report.warning(Code.WRONG_VALUE, version.span, message, f"known are {', '.join(API_VERSIONS)}")
    header = (("apiVersion", version, API_VERSIONS[0]), ("kind", fields.node_of("kind"), "Playbook"))
    for name, node, default in header:
        if node is None:
            message = f'the playbook has no "{name}"'
            fields.report.warning(Code.MISSING_FIELD, fields.span, message, f"add the line {name}: {default}")


def _step_nodes(fields: Fields, context: ParseContext) -> Iterator[MappingNode]:
    workflow = fields.node.get("workflow")
    for node in workflow.items if isinstance(workflow, SequenceNode) else ():
        if isinstance(node, MappingNode):
            yield _with_step_name(node, context)


def _step_names(fields: Fields, context: ParseContext) -> Iterator[str]:
    for node in _step_nodes(fields, context):
        name = node.get("step")
        if isinstance(name, ScalarNode):
            yield name.text


def _read_identity(fields: Fields, metadata: ConstructFields | None) -> tuple[str, str, str]:
    """Return name, catalog path and version; the path defaults to the name and the name to the path.

    They are in the metadata, in v1 files at the root, in some files in both.
    """
    sources = (metadata, fields) if metadata else (fields,)
    name, path, version = (_first_text(sources, key) for key in ("name", "path", "version"))
    if metadata is None and not (name or path):
        fields.report_missing("metadata", hint="write metadata: {name: ..., path: ...}")
    if metadata:
        metadata.take_remaining(None)  # tags, labels and other data for a catalog
        if not (name or path):
            metadata.report_missing("name", "path")
    return name or path, path or name, version


def _read_priority(metadata: ConstructFields) -> Priority | None:
    """Read the priority from the metadata, None if absent."""
    number, weight = (
        metadata.number_in_range("priority", PRIORITIES),
        metadata.number_in_range("fairness_weight", FAIRNESS_WEIGHTS),
    )
    key = metadata.scalar("fairness_key")
    if key is not None and len(key.text.encode()) > MAX_FAIRNESS_KEY_BYTES:
        metadata.report.error(Code.WRONG_VALUE, key.span, f'"fairness_key" has at most {MAX_FAIRNESS_KEY_BYTES} bytes')
    priority = Priority(None if number is None else int(number), key.text if key else "", weight)
    return None if priority == Priority() else priority


def _first_text(sources: tuple[Fields, ...], key: str) -> str:
    nodes = [fields.scalar(key) for fields in sources]
    first = next((node for node in nodes if node is not None and node.text), None)
    if first is None:
        return ""
    report_control_character(first.text, first.span, sources[0].report)
    return first.text


def _read_steps(
    fields: ConstructFields, context: ParseContext, step_construct: Construct, read_step: ReadStep
) -> tuple[Step, ...]:
    steps: list[Step] = []
    for node in fields.items("workflow"):
        if not isinstance(node, MappingNode):
            context.report.error(Code.WRONG_TYPE, node.span, "a step must be a mapping", "write {step: name, ...}")
            continue
        step_fields = ConstructFields(_with_step_name(node, context), context.report, step_construct)
        name = step_fields.required_name("step", mistaken_key="name")
        step = read_step(step_fields, name or Name("", node.span), context)
        if name is not None:
            steps.append(step)
    if "workflow" not in fields:
        fields.report_missing("workflow")
    elif not steps and not context.report.has_error_in(fields.span):
        fields.report.error(Code.MISSING_FIELD, fields.span, '"workflow" has no steps')
    return tuple(steps)


def _with_step_name(node: MappingNode, context: ParseContext) -> MappingNode:
    """Move ``name`` to ``step``: in v1, a step with a ``type`` may have its name there."""
    if context.dialect != "v1" or node.get("step") or not node.get("type"):
        return node
    return MappingNode(
        tuple((replace(key, text="step") if key.text == "name" else key, item) for key, item in node.entries), node.span
    )


def _workbook_items(fields: Fields) -> tuple[Node, ...]:
    """Return the tasks of the workbook: a list, or the documented ``{tasks: {name: {...}}}``."""
    workbook = fields.node_of("workbook")
    tasks = workbook.get("tasks") if isinstance(workbook, MappingNode) else None
    if isinstance(tasks, SequenceNode):
        return tasks.items
    if isinstance(tasks, MappingNode):
        return tuple(_with_name(key, body) for key, body in tasks.entries)
    return fields.items("workbook")


def _read_workbook(fields: Fields, context: ParseContext, steps: tuple[Step, ...]) -> tuple[Task, ...]:
    """Read the workbook. Errors in a task that is never called are downgraded to warnings."""
    diagnostics, read_items = context.report.diagnostics, list[tuple[tuple[Task, ...], slice]]()
    for item in _workbook_items(fields):
        start = len(diagnostics)
        read_items.append((read_workbook((item,), context), slice(start, len(diagnostics))))
    tasks_with_calls = called_task_names(steps, (task for tasks, _ in read_items for task in tasks))
    for tasks, positions in read_items:
        if tasks_with_calls.isdisjoint(task.label.text for task in tasks):
            diagnostics[positions] = [
                _as_warning(diagnostic) if tasks else diagnostic for diagnostic in diagnostics[positions]
            ]
    return tuple(task for tasks, _ in read_items for task in tasks)


def _as_warning(diagnostic: Diagnostic) -> Diagnostic:
    return replace(diagnostic, severity=Severity.WARNING) if diagnostic.code is Code.MISSING_FIELD else diagnostic


def _with_name(name: ScalarNode, body: Node) -> Node:
    if not isinstance(body, MappingNode) or body.get("name"):
        return body
    key = string_node("name", name.span)
    return MappingNode(((key, name), *body.entries), body.span)


def _read_workload(fields: Fields) -> Value:
    """Read the defaults of the run's parameters, which are also the initial values of ``ctx`` (``vars``).

    Old files have their parameters in a root ``spec`` and read them as ``spec.x``.
    """
    workload = merged_mappings(fields, ("vars", "ctx", "workload"))
    old_spec = fields.mapping("spec")
    if old_spec is None:
        return workload
    wrapper = MappingNode(((string_node("spec", old_spec.span), old_spec),), old_spec.span)
    return overlay(value_of(wrapper), workload)
