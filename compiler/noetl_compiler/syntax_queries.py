"""Ways through the syntax tree that several phases go: tasks, arcs, ``set`` entries, calls of the workbook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from noetl_compiler.graph import Assign
from noetl_compiler.syntax import Arc, Playbook, Step, Task

__all__ = ["all_tasks", "arcs_of", "called_tasks", "set_by_step", "set_by_task"]


def all_tasks(playbook: Playbook) -> Iterator[Task]:
    """Those of the workbook, then those of each step."""
    yield from playbook.workbook
    for step in playbook.steps:
        yield from step.tasks


def arcs_of(step: Step) -> Iterator[Arc]:
    """All ways on from a step."""
    for group in step.next.groups if step.next else ():
        yield from group


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


def called_tasks(steps: Iterable[Step], workbook: Iterable[Task]) -> frozenset[str]:
    """The names of the workbook's tasks that steps and tasks of the workbook call."""
    tasks = (*workbook, *(task for step in steps for task in step.tasks))
    return frozenset(task.workbook.text for task in tasks if task.workbook is not None)
