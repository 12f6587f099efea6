"""Read tasks that wait for a duration, a signal or a person, and retries that wait for a signal.

``on_timeout`` is shorthand for an arc of the step: it becomes the first arc, which matches if that task timed out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Related
from noetl_compiler.dialects.construct_fields import ConstructFields
from noetl_compiler.dialects.fields import Fields
from noetl_compiler.graph import Template, Value
from noetl_compiler.language.payload_schema import form_error, schema_error
from noetl_compiler.language.tools import WAIT_KINDS
from noetl_compiler.nodes import Node, ScalarNode, to_json
from noetl_compiler.report import Report
from noetl_compiler.syntax import Arc, Name, Next, Playbook, Step, Task

__all__ = ["check_wait", "read_on_timeout", "read_wait_for", "with_timeout_routes"]

_AWAITED_KEYS = ("until", "duration", "signal")
_SIGNAL_KEYS = ("key", "schema")
_CHECKS: Mapping[str, Callable[[Any], str | None]] = MappingProxyType({"schema": schema_error, "form": form_error})
"""Fields that are checked at compile time, so they may not have templates -> the function that returns the error."""


def read_wait_for(fields: ConstructFields, *, is_retry: bool) -> tuple[str | None, Value | None]:
    """Read the signal that a retry waits for, and its timeout."""
    signal, limit = fields.name("wait_for"), fields.seconds("timeout")
    for key in ("wait_for", "timeout"):
        if key in fields and (not is_retry or signal is None):
            fields.ignore(key, reason='only "do: retry" with "wait_for" uses it')
    if signal is not None and is_retry:
        _forbid_template(signal, fields.scalar("wait_for"), "wait_for", fields.report)
    return (signal.text, limit) if signal and is_retry else (None, None)


def read_on_timeout(fields: Fields, kind: Name) -> Name | None:
    """Read the step that follows a wait that timed out."""
    return fields.name("on_timeout") if kind.text in WAIT_KINDS else None


def check_wait(entries: tuple[tuple[ScalarNode, Node], ...], fields: Fields) -> None:
    """Check that the fields of a wait are consistent, and that its schema or form is valid."""
    report, entries_by_key = fields.report, {key.text: (key, node) for key, node in entries}
    first_key, *other_keys = [key for key in _AWAITED_KEYS if key in entries_by_key] or [""]
    for other_key in other_keys:
        related = (Related(entries_by_key[first_key][0].span, f'"{first_key}" is here'),)
        message = f'a wait cannot have both "{first_key}" and "{other_key}"'
        report.error(Code.CONFLICTING_FIELDS, entries_by_key[other_key][0].span, message, "write two tasks", related)
    for key in _SIGNAL_KEYS:
        if key in entries_by_key and "signal" not in entries_by_key:
            report.error(Code.MISSING_FIELD, entries_by_key[key][0].span, f'"{key}" needs a "signal"')
    for key, check in _CHECKS.items():
        if key in entries_by_key and (error := check(to_json(entries_by_key[key][1]))) is not None:
            report.error(Code.WRONG_VALUE, entries_by_key[key][1].span, error)
    if "signal" in entries_by_key and isinstance(node := entries_by_key["signal"][1], ScalarNode):
        _forbid_template(Name(node.text, node.span), node, "signal", report)


def _forbid_template(name: Name, node: ScalarNode | None, key: str, report: Report) -> None:
    """Report a template in the name of a signal: a run rejects unknown signals, so names must be known in advance."""
    if not name.text.strip() or (node is not None and node.template_span):
        message = f'"{key}" must be the name of a signal, without templates'
        report.error(Code.WRONG_VALUE, name.span, message, 'distinguish several waits by their "key"')


def with_timeout_routes(playbook: Playbook, report: Report) -> Playbook:
    """Return the playbook with ``on_timeout`` of its tasks converted to arcs of their steps."""
    for task in playbook.workbook:
        if task.on_timeout is not None:
            message = '"on_timeout" names a step, but a task of the workbook belongs to none'
            report.error(Code.WRONG_VALUE, task.on_timeout.span, message, "write a route of the step that calls it")
    if not any(task.on_timeout for step in playbook.steps for task in step.tasks):
        return playbook
    return replace(playbook, steps=tuple(_with_timeout_arcs(step, report) for step in playbook.steps))


def _with_timeout_arcs(step: Step, report: Report) -> Step:
    arcs = tuple(_timeout_arcs(step.tasks))
    if not arcs:
        return step
    for task in step.tasks:
        _check_on_timeout(step, task, report)
    own_next = step.next or Next(step.span, "exclusive")
    return replace(
        step,
        next=replace(own_next, groups=(*((arc,) for arc in arcs), *own_next.groups)),
        tasks=tuple(replace(task, on_timeout=None) for task in step.tasks),
    )


def _check_on_timeout(step: Step, task: Task, report: Report) -> None:
    if task.on_timeout is None:
        return
    if step.loop is not None:
        message = '"on_timeout" cannot leave a loop: its other items continue'
        hint = "handle the timeout by a rule of the task's policy"
        report.error(Code.WRONG_VALUE, task.on_timeout.span, message, hint)
    elif task.timeout is None:
        message = '"on_timeout" needs a "timeout"'
        report.error(Code.MISSING_FIELD, task.on_timeout.span, message, "write timeout: 1h beside it")


def _timeout_arcs(tasks: tuple[Task, ...]) -> Iterator[Arc]:
    for task in tasks:
        if task.on_timeout is not None:
            span, label = task.on_timeout.span, task.label.text.replace("\\", "\\\\").replace("'", "\\'")
            when = f"{{{{ error.kind == 'timeout' and error.wait | default('') == '{label}' }}}}"
            yield Arc(task.on_timeout, span, Template(when, span), on_status="error")
