"""Every template of a syntax tree with the place it stands in: the place decides which names are bound there."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from functools import cache
from typing import Any, cast

import msgspec

from noetl_compiler.graph import Span, Template, Value
from noetl_compiler.graph.contents import at
from noetl_compiler.syntax import Loop, Playbook, Step, Task

__all__ = ["RenderedAt", "Use", "uses"]


class RenderedAt(Enum):
    """When a template is rendered, which is in this order in the life of a step."""

    WORKLOAD = "the workload's defaults, once, when a run starts; entries of the keychain"
    ENTER = "a step that is entered: admission, what it sets then"
    STEP = "a step that is about to begin: what it binds, its loop's collection"
    ITEM = "an item of a loop that is about to be chosen: where, order_by"
    TASK = "a task that is about to be called"
    OUTCOME = "a task that was called: rules, sinks, what it sets, tasks beside it"
    AFTER = "a step that is over: what it sets, its result"
    ARC = "a way on"


class Use(msgspec.Struct, frozen=True):
    """A template at its place. ``step`` None: the workload, or a task of the workbook, which any step may call."""

    template: Template
    place: RenderedAt
    step: Step | None = None
    task: Task | None = None
    is_predicate: bool = False


def uses(playbook: Playbook) -> Iterator[Use]:
    """The uses of a whole playbook, in its order."""
    yield from _at(RenderedAt.WORKLOAD, None, None, playbook.workload)
    yield from _at(RenderedAt.WORKLOAD, None, None, *(entry.config for entry in playbook.keychain))
    yield from _at(RenderedAt.STEP, None, None, playbook.timeout)
    for task in playbook.workbook:
        yield from _of_task(None, task)
    for step in playbook.steps:
        yield from _of_step(step)


def _of_step(step: Step) -> Iterator[Use]:
    yield from _at(RenderedAt.ENTER, step, None, step.admit, step.enter)
    yield from _at(RenderedAt.STEP, step, None, step.timeout)
    yield from _at(RenderedAt.TASK if step.loop else RenderedAt.STEP, step, None, step.args)
    if step.loop is not None:
        yield from _of_loop(step, step.loop)
    for task in step.tasks:
        yield from _of_task(step, task)
    yield from _at(RenderedAt.AFTER, step, None, step.set, step.result, step.sinks)
    yield from _at(RenderedAt.ARC, step, None, step.next)


def _of_loop(step: Step, loop: Loop) -> Iterator[Use]:
    body = loop.body
    yield from _at(RenderedAt.STEP, step, None, body.collection, body.cursor)
    yield from _at(RenderedAt.STEP, step, None, body.max_in_flight, body.chunk_size, body.limit, body.frame)
    yield from _at(RenderedAt.ITEM, step, None, body.where)
    if body.order_by is not None:
        yield Use(body.order_by, RenderedAt.ITEM, step)


def _of_task(step: Step | None, task: Task) -> Iterator[Use]:
    """A task with a guard stands beside one that was called, and sees what came of that."""
    called = RenderedAt.TASK if task.guard is None else RenderedAt.OUTCOME
    yield from _at(called, step, task, task.input, task.config, task.splices, task.auth, task.timeout)
    yield from _at(RenderedAt.OUTCOME, step, task, task.guard, task.policy, task.sinks, task.set)


def _at(place: RenderedAt, step: Step | None, task: Task | None, *parts: object) -> Iterator[Use]:
    found: list[tuple[Template, bool]] = []
    for part in filter(None, parts):
        _collect(part, found)
    for template, is_predicate in found:
        yield Use(template, place, step, task, is_predicate)


def _collect(part: Any, found: list[tuple[Template, bool]]) -> None:
    """Templates, and whether each is a predicate: those stand alone, others in a value."""
    if isinstance(part, Template):
        found.append((part, True))
    elif isinstance(part, Value):
        found += [(Template(str(at(part.data, place)), span), False) for place, span in part.templates.items()]
    elif isinstance(part, tuple):
        for item in cast("tuple[Any, ...]", part):
            _collect(item, found)
    else:
        for name in _field_names(part.__class__):
            if item := getattr(part, name):
                _collect(item, found)


@cache
def _field_names(kind: type[Any]) -> tuple[str, ...]:
    """The fields of a struct; what is no struct, and a place, has no template in it."""
    if kind is Span:
        return ()
    names: tuple[str, ...] = getattr(kind, "__struct_fields__", ())
    return names or tuple(getattr(kind, "__dataclass_fields__", ()))
