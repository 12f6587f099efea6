"""The names that a call binds for its tool, as the machine does: the arguments of the routes to the step, those of the
step, and the input of the task.
"""

from __future__ import annotations

from collections.abc import Iterator

from noetl_compiler.graph import Value
from noetl_compiler.syntax import Playbook, Task
from noetl_compiler.syntax_queries import calls_of, passed_by_arcs, workbook_of
from noetl_compiler.value_merge import names_in

__all__ = ["tasks_with_bound_names"]


def tasks_with_bound_names(playbook: Playbook) -> Iterator[tuple[Task, frozenset[str] | None]]:
    """Yield all tasks with the names bound for them; for a workbook task, those of all its calls. None if they are
    known only at run time or if nothing calls the task.
    """
    workbook, passed = workbook_of(playbook), passed_by_arcs(playbook)
    of_workbook: dict[int, list[Value]] = {id(task): [] for task in playbook.workbook}
    for step in playbook.steps:
        around = [step.args, *passed.get(step.name.text, ())]
        for task in step.tasks:
            calls = calls_of(task, workbook)
            values = [*around, *(call.input for call in calls)]
            for call in calls[1:]:
                of_workbook[id(call)] += values
            yield task, None if step.ends is not None else _names(values)
    for task in playbook.workbook:
        values = of_workbook[id(task)]
        yield task, _names(values) if values else None


def _names(values: list[Value]) -> frozenset[str] | None:
    if any(isinstance(value.data, str) for value in values):
        return None
    return frozenset(name for value in values for name in names_in(value))
