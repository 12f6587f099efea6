"""Queries of the syntax tree: tasks, arcs, ``set`` entries, calls of the workbook, first and last step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from noetl_compiler.graph import Assign, Value
from noetl_compiler.language.defaults import ENTRY_STEP, FINAL_STEP
from noetl_compiler.syntax import Arc, Name, Playbook, Step, Task

__all__ = [
    "all_arcs_of",
    "all_tasks",
    "arcs_of",
    "assigns_of_step",
    "assigns_of_task",
    "called_task_names",
    "calls_of",
    "choose_final_name",
    "entry_name_of",
    "final_name_of",
    "item_arcs_of",
    "values_passed_to_steps",
    "workbook_of",
]


def all_tasks(playbook: Playbook) -> Iterator[Task]:
    """Yield the tasks of the workbook, then those of each step."""
    yield from playbook.workbook
    for step in playbook.steps:
        yield from step.tasks


def arcs_of(step: Step) -> Iterator[Arc]:
    """Yield the arcs from a step, without those of its item routes."""
    for group in step.next.groups if step.next else ():
        yield from group


def item_arcs_of(step: Step) -> Iterator[Arc]:
    """Yield the arcs of the item routes of the step's loop."""
    for group in step.item_routes.groups if step.item_routes else ():
        yield from group


def all_arcs_of(step: Step) -> Iterator[Arc]:
    """Yield the arcs from a step and those of its item routes."""
    yield from item_arcs_of(step)
    yield from arcs_of(step)


def assigns_of_step(step: Step) -> Iterator[Assign]:
    """Yield the assignments of a step: on entry, by its tasks, after them, and on its arcs."""
    for rule in step.enter:
        yield from rule.set
    for task in step.tasks:
        yield from assigns_of_task(task)
    yield from step.set
    for arc in all_arcs_of(step):
        yield from arc.set


def assigns_of_task(task: Task) -> Iterator[Assign]:
    """Yield the assignments of the task and of the rules of its policy."""
    yield from task.set
    for rule in task.policy.rules if task.policy else ():
        yield from rule.body.set


def called_task_names(steps: Iterable[Step], workbook: Iterable[Task]) -> frozenset[str]:
    """Return the names of the workbook tasks that steps and other workbook tasks call."""
    tasks = (*workbook, *(task for step in steps for task in step.tasks))
    return frozenset(task.workbook.text for task in tasks if task.workbook is not None)


def workbook_of(playbook: Playbook) -> dict[str, Task]:
    """Return the workbook tasks by name."""
    return {task.label.text: task for task in playbook.workbook}


def calls_of(task: Task, workbook: Mapping[str, Task]) -> tuple[Task, ...]:
    """Return the task and the workbook tasks that it calls, directly or indirectly, each once, as far as they exist."""
    tasks = [task]
    while task.workbook is not None and (called_task := workbook.get(task.workbook.text)) is not None:
        if any(called_task is other for other in tasks):
            break
        tasks.append(task := called_task)
    return tuple(tasks)


def entry_name_of(playbook: Playbook) -> str:
    """Return the name of the first step of a run: the executor's entry step, else ``start``, else the first in the
    text.
    """
    if playbook.entry:
        return playbook.entry.text
    names = [step.name.text for step in playbook.steps]
    return ENTRY_STEP if ENTRY_STEP in names else names[0]


def final_name_of(playbook: Playbook) -> str:
    """Return the name of the final step."""
    return choose_final_name(playbook.final, (step.name.text for step in playbook.steps))


def choose_final_name(declared: Name | None, steps: Iterable[str]) -> str:
    """Return the name of the final step that the executor declares, else that of the step ``end``, in any case; else
    ``end``.
    """
    return declared.text if declared else next((name for name in steps if name.lower() == FINAL_STEP), FINAL_STEP)


def values_passed_to_steps(playbook: Playbook) -> dict[str, list[Value]]:
    """Return step -> the ``args`` of each arc to it."""
    values: dict[str, list[Value]] = {}
    for step in playbook.steps:
        for arc in all_arcs_of(step):
            values.setdefault(arc.target.text, []).append(arc.args)
    return values
