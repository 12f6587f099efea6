"""Read what all dialects have in common: metadata, workload, keychain, executor."""

from __future__ import annotations

import re
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
from noetl_compiler.dialects.reducers import reduced
from noetl_compiler.dialects.spec_defaults import with_defaults
from noetl_compiler.dialects.tasks import ParseContext, read_workbook
from noetl_compiler.dialects.values import mapping_value
from noetl_compiler.graph import Priority, Value
from noetl_compiler.language.construct import Construct
from noetl_compiler.language.constructs.playbook import FAIRNESS_WEIGHTS, METADATA, PLAYBOOK, PRIORITIES
from noetl_compiler.nodes import MappingNode, Node, ScalarNode, SequenceNode, value_of
from noetl_compiler.syntax import Name, Playbook, Step, Task
from noetl_compiler.syntax_queries import called_tasks, final_name
from noetl_compiler.value_merge import overlay

__all__ = ["ReadStep", "read_playbook"]

FAIRNESS_KEY_BYTES = 64
"""Temporal truncates longer keys."""

_API_VERSION = re.compile(r"noetl\.io/v[0-9]+[a-z0-9]*")

ReadStep: TypeAlias = Callable[[ConstructFields, Name, ParseContext], Step]


def read_playbook(root: MappingNode, around: ParseContext, form: Construct, read_step: ReadStep) -> Playbook:
    """Read a document; ``read_step`` reads its steps, which have the form ``form``."""
    fields = _RootFields(root, around.report, PLAYBOOK)
    _check_header(fields)
    metadata = ConstructFields.below(fields, "metadata", METADATA)
    name, path, version = _identity(fields, metadata)
    executor = read_executor(fields, around)
    final = final_name(executor.final, _step_names(fields, around))
    around = replace(around, dialect=executor.dialect or around.dialect, final=final)
    steps = _read_steps(fields, around, form, read_step)
    workbook = _read_workbook(fields, around, steps)
    tasks = {task.label.text: task for task in workbook}
    playbook = Playbook(
        around.dialect,
        root.span,
        name,
        path,
        version,
        steps=tuple(reduced(with_defaults(step, tasks, executor.defaults), around.report) for step in steps),
        workbook=workbook,
        workload=_read_workload(fields),
        keychain=read_keychain(fields),
        entry=executor.entry,
        final=executor.final,
        no_next_is_error=executor.no_next_is_error,
        failure=executor.failure,
        on_failure=executor.on_failure,
        timeout=executor.timeout,
        priority=None if metadata is None else _priority(metadata),
    )
    if metadata is not None:
        metadata.close()
    fields.close()
    return playbook


class _RootFields(ConstructFields):
    """The keys of a playbook, with a remedy for those that people add to hold anchors."""

    def _unknown(self, key: ScalarNode, hint: str) -> None:
        known = ", ".join(one.name for one in PLAYBOOK.keys if not (one.deprecated or one.no_effect))
        remedy = (
            f'move it below "metadata", which takes any key, such as those of YAML anchors; the keys here are {known}'
        )
        super()._unknown(key, hint or remedy)


def _check_header(fields: Fields) -> None:
    """Warn of a missing header (NT104) and of an unknown apiVersion (NT106). They have no effect, so these are no
    errors.
    """
    found = fields.scalar("apiVersion")
    if found is not None and not _API_VERSION.fullmatch(found.text):
        message = f'unknown apiVersion "{found.text}"'
        fields.report.warning(Code.WRONG_VALUE, found.span, message, "write noetl.io/v2")
    for name, given, text in (("apiVersion", found, "noetl.io/v2"), ("kind", fields.node_of("kind"), "Playbook")):
        if given is None:
            message = f'the playbook has no "{name}"'
            fields.report.warning(Code.MISSING_FIELD, fields.span, message, f"add the line {name}: {text}")


def _step_nodes(fields: Fields, around: ParseContext) -> Iterator[MappingNode]:
    workflow = fields.node.get("workflow")
    for node in workflow.items if isinstance(workflow, SequenceNode) else ():
        if isinstance(node, MappingNode):
            yield _with_step_name(node, around)


def _step_names(fields: Fields, around: ParseContext) -> Iterator[str]:
    for node in _step_nodes(fields, around):
        name = node.get("step")
        if isinstance(name, ScalarNode):
            yield name.text


def _identity(fields: Fields, meta: ConstructFields | None) -> tuple[str, str, str]:
    """Return name, catalog path and version; the path defaults to the name and the name to the path.

    They are in the metadata, in v1 files at the root, in some files in both.
    """
    places = (meta, fields) if meta else (fields,)
    name, path, version = (_first_text(places, key) for key in ("name", "path", "version"))
    if meta is None and not (name or path):
        fields.missing("metadata", "write metadata: {name: ..., path: ...}")
    if meta:
        meta.rest(None)  # tags, labels and whatever a catalog wants to know
        if not (name or path):
            meta.missing("name")
    return name or path, path or name, version


def _priority(meta: ConstructFields) -> Priority | None:
    """Read the priority from the metadata, None if absent."""
    number, weight = meta.within("priority", PRIORITIES), meta.within("fairness_weight", FAIRNESS_WEIGHTS)
    key = meta.scalar("fairness_key")
    if key is not None and len(key.text.encode()) > FAIRNESS_KEY_BYTES:
        meta.report.error(Code.WRONG_VALUE, key.span, f'"fairness_key" has at most {FAIRNESS_KEY_BYTES} bytes')
    found = Priority(None if number is None else int(number), key.text if key else "", weight)
    return None if found == Priority() else found


def _first_text(places: tuple[Fields, ...], key: str) -> str:
    found = [fields.scalar(key) for fields in places]
    first = next((one for one in found if one is not None and one.text), None)
    if first is None:
        return ""
    report_control_character(first.text, first.span, places[0].report)
    return first.text


def _read_steps(
    fields: ConstructFields, around: ParseContext, form: Construct, read_step: ReadStep
) -> tuple[Step, ...]:
    steps: list[Step] = []
    for node in fields.items("workflow"):
        if not isinstance(node, MappingNode):
            around.report.error(Code.WRONG_TYPE, node.span, "a step must be a mapping", "write {step: name, ...}")
            continue
        inner = ConstructFields(_with_step_name(node, around), around.report, form)
        name = inner.required_name("step", mistaken="name")
        step = read_step(inner, name or Name("", node.span), around)
        if name is not None:
            steps.append(step)
    if "workflow" not in fields:
        fields.missing("workflow")
    elif not steps and not around.report.has_error_in(fields.span):
        fields.report.error(Code.MISSING_FIELD, fields.span, '"workflow" has no steps')
    return tuple(steps)


def _with_step_name(node: MappingNode, around: ParseContext) -> MappingNode:
    """Move ``name`` to ``step``: in v1, a step with a ``type`` may have its name there."""
    if around.dialect != "v1" or node.get("step") or not node.get("type"):
        return node
    return MappingNode(
        tuple((replace(key, text="step") if key.text == "name" else key, item) for key, item in node.entries), node.span
    )


def _workbook_items(fields: Fields) -> tuple[Node, ...]:
    """Return the tasks of the workbook: a list, or the documented ``{tasks: {name: {...}}}``."""
    found = fields.node_of("workbook")
    tasks = found.get("tasks") if isinstance(found, MappingNode) else None
    if isinstance(tasks, SequenceNode):
        return tasks.items
    if isinstance(tasks, MappingNode):
        return tuple(_named(key, body) for key, body in tasks.entries)
    return fields.items("workbook")


def _read_workbook(fields: Fields, around: ParseContext, steps: tuple[Step, ...]) -> tuple[Task, ...]:
    """Read the workbook. Errors in a task that is never called are downgraded to warnings."""
    found, read = around.report.diagnostics, list[tuple[tuple[Task, ...], slice]]()
    for item in _workbook_items(fields):
        before = len(found)
        read.append((read_workbook((item,), around), slice(before, len(found))))
    called = called_tasks(steps, (task for tasks, _ in read for task in tasks))
    for tasks, reported in read:
        if called.isdisjoint(task.label.text for task in tasks):
            found[reported] = [_as_warning(one) if tasks else one for one in found[reported]]
    return tuple(task for tasks, _ in read for task in tasks)


def _as_warning(found: Diagnostic) -> Diagnostic:
    return replace(found, severity=Severity.WARNING) if found.code is Code.MISSING_FIELD else found


def _named(name: ScalarNode, body: Node) -> Node:
    if not isinstance(body, MappingNode) or body.get("name"):
        return body
    key = ScalarNode("name", "name", name.span, "plain")
    return MappingNode(((key, name), *body.entries), body.span)


def _read_workload(fields: Fields) -> Value:
    """Read the defaults of the run's parameters, which are also the initial values of ``ctx`` (``vars``).

    Old files have their parameters in a root ``spec`` and read them as ``spec.x``.
    """
    workload = Value({})
    for key in ("vars", "ctx", "workload"):
        workload = overlay(workload, mapping_value(fields.node_of(key), fields.report, key))
    older = fields.mapping("spec")
    if older is None:
        return workload
    wrapped = MappingNode(((ScalarNode("spec", "spec", older.span, "plain"), older),), older.span)
    return overlay(value_of(wrapped), workload)
