"""Find the names that are bound for each call of a tool: the arguments of the routes to the step, those of the step,
and the input of the task.
"""

from __future__ import annotations

from collections.abc import Iterator

from noetl_compiler.graph import Value
from noetl_compiler.syntax import Playbook, Task
from noetl_compiler.syntax_queries import calls_of, values_passed_to_steps, workbook_of
from noetl_compiler.value_merge import mapping_of

__all__ = ["tasks_with_bound_names"]


def tasks_with_bound_names(playbook: Playbook) -> Iterator[tuple[Task, frozenset[str] | None]]:
    """Yield each task with the names bound for it; for a workbook task, those of all its calls. None if the names are
    known only at run time, or if nothing calls the task.
    """
    workbook, passed_values = workbook_of(playbook), values_passed_to_steps(playbook)
    workbook_values: dict[int, list[Value]] = {id(task): [] for task in playbook.workbook}
    for step in playbook.steps:
        step_values = [step.args, *passed_values.get(step.name.text, ())]
        for task in step.tasks:
            calls = calls_of(task, workbook)
            values = [*step_values, *(call.input for call in calls)]
            for call in calls[1:]:
                workbook_values[id(call)] += values
            yield task, None if step.ended_loop is not None else _names(values)
    for task in playbook.workbook:
        values = workbook_values[id(task)]
        yield task, _names(values) if values else None


def _names(values: list[Value]) -> frozenset[str] | None:
    if any(isinstance(value.data, str) for value in values):
        return None
    return frozenset(name for value in values for name in mapping_of(value))
