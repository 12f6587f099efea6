"""Find the templates of a syntax tree, each with the moment of its rendering, which determines its scope."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from functools import cache
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from noetl_compiler.graph import Span, Template, Value
from noetl_compiler.graph.contents import value_at
from noetl_compiler.syntax import Loop, Name, Playbook, Step, Task

__all__ = ["RenderedAt", "TemplateUse", "template_uses"]


class RenderedAt(Enum):
    """When a template is rendered, in the order of a step's life cycle."""

    WORKLOAD = "at the start of the run: the workload's defaults, entries of the keychain"
    ENTER = "when a step is entered: admission, its assignments on entry"
    STEP = "before a step begins: its arguments, its loop's collection, timeouts"
    CURSOR = "when a row of a cursor is claimed, or its lease renewed or ended"
    ITEM = "when the items of a loop are selected: where, order_by"
    TASK = "before a task is called"
    OUTCOME = "after a task was called: rules, sinks, assignments, tasks that follow it"
    ITEM_ARC = "when a route of an item is evaluated"
    AFTER = "after a step: its assignments, its result"
    ARC = "when a route is evaluated"


class TemplateUse(msgspec.Struct, frozen=True):
    """A template and its place in the playbook. ``step`` is None outside of steps, such as in the workbook."""

    template: Template
    rendered_at: RenderedAt
    step: Step | None = None
    task: Task | None = None
    is_predicate: bool = False


def template_uses(playbook: Playbook) -> Iterator[TemplateUse]:
    """Yield the templates of a playbook, field by field."""
    yield from _uses_in(RenderedAt.WORKLOAD, None, None, playbook.workload)
    yield from _uses_in(RenderedAt.WORKLOAD, None, None, *(entry.config for entry in playbook.keychain))
    yield from _uses_in(RenderedAt.STEP, None, None, playbook.timeout)
    for task in playbook.workbook:
        yield from _uses_of_task(None, task)
    for step in playbook.steps:
        yield from _uses_of_step(step)


def _uses_of_step(step: Step) -> Iterator[TemplateUse]:
    yield from _uses_in(RenderedAt.ENTER, step, None, step.admit, step.enter)
    yield from _uses_in(RenderedAt.STEP, step, None, step.timeout)
    yield from _uses_in(RenderedAt.TASK if step.loop else RenderedAt.STEP, step, None, step.args)
    if step.loop is not None:
        yield from _uses_of_loop(step, step.loop)
    for task in step.tasks:
        yield from _uses_of_task(step, task)
    yield from _uses_in(RenderedAt.ITEM_ARC, step, None, step.item_routes)
    yield from _uses_in(RenderedAt.AFTER, step, None, step.set, step.result, step.sinks, step.status)
    yield from _uses_in(RenderedAt.ARC, step, None, step.next)


def _uses_of_loop(step: Step, loop: Loop) -> Iterator[TemplateUse]:
    body = loop.body
    yield from _uses_in(RenderedAt.STEP, step, None, body.collection)
    if body.cursor is not None:  # the calls have the templates that the author wrote
        yield from _uses_in(RenderedAt.CURSOR, step, None, replace(body.cursor, config=Value({}), auth=None))
    yield from _uses_in(RenderedAt.STEP, step, None, body.max_in_flight, body.chunk_size, body.limit, body.frame)
    yield from _uses_in(RenderedAt.ITEM, step, None, body.where)
    if body.order_by is not None:
        yield TemplateUse(body.order_by, RenderedAt.ITEM, step)


def _uses_of_task(step: Step | None, task: Task) -> Iterator[TemplateUse]:
    """Yield the templates of a task. One with a guard is rendered after the call that it follows."""
    rendered_at = RenderedAt.TASK if task.guard is None else RenderedAt.OUTCOME
    yield from _uses_in(rendered_at, step, task, task.input, task.config, task.splices, task.auth, task.timeout)
    yield from _uses_in(RenderedAt.OUTCOME, step, task, task.guard, task.policy, task.sinks, task.set)


def _uses_in(rendered_at: RenderedAt, step: Step | None, task: Task | None, *parts: object) -> Iterator[TemplateUse]:
    templates: list[tuple[Template, bool]] = []
    for part in filter(None, parts):
        _collect(part, templates)
    for template, is_predicate in templates:
        yield TemplateUse(template, rendered_at, step, task, is_predicate)


def _collect(part: Any, templates: list[tuple[Template, bool]]) -> None:
    """Collect templates, each with whether it is a predicate; other templates are part of a value."""
    if isinstance(part, Template):
        templates.append((part, True))
    elif isinstance(part, Value):
        templates += [
            (Template(str(value_at(part.data, pointer)), span), False) for pointer, span in part.templates.items()
        ]
    elif isinstance(part, tuple):
        for item in cast("tuple[Any, ...]", part):
            _collect(item, templates)
    else:
        for name in _field_names(part.__class__):
            item = getattr(part, name)
            if item and item.__class__ not in _WITHOUT_TEMPLATES:
                _collect(item, templates)


_WITHOUT_TEMPLATES = frozenset({str, int, float, bool, Span, Name})
"""Types of fields that cannot contain a template, for speed."""


@cache
def _field_names(kind: type[Any]) -> tuple[str, ...]:
    """Return the fields of a struct that may contain templates; none for other types."""
    return getattr(kind, "__struct_fields__", ()) or tuple(getattr(kind, "__dataclass_fields__", ()))
