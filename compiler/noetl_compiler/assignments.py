"""Every ``set`` entry of a step or task, wherever it stands in it."""

from __future__ import annotations

from collections.abc import Iterator

from noetl_compiler.graph import Assign
from noetl_compiler.regions import arcs_of
from noetl_compiler.syntax import Step, Task

__all__ = ["set_by_step", "set_by_task"]


def set_by_step(step: Step) -> Iterator[Assign]:
    """On entering, by the step's tasks, after them, and on the ways on."""
    for rule in step.enter:
        yield from rule.set
    for task in step.tasks:
        yield from set_by_task(task)
    yield from step.set
    for arc in arcs_of(step):
        yield from arc.set


def set_by_task(task: Task) -> Iterator[Assign]:
    """By the task itself and by the rules of its policy."""
    yield from task.set
    for rule in task.policy.rules if task.policy else ():
        yield from rule.body.set
