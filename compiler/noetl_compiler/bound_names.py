"""The names that a call binds for its tool, as the machine binds them: what the ways to the step pass, what the step
binds, and the task's own input.
"""

from __future__ import annotations

from collections.abc import Iterator

from noetl_compiler.graph import Value
from noetl_compiler.lowering.tasks import calls_of, workbook_of
from noetl_compiler.syntax import Playbook, Task
from noetl_compiler.syntax_queries import arcs_of
from noetl_compiler.value_merge import names_in

__all__ = ["tasks_with_bound_names"]


def tasks_with_bound_names(playbook: Playbook) -> Iterator[tuple[Task, frozenset[str] | None]]:
    """All tasks, those of the workbook with the names that any of their calls binds. None where that is known only
    when it runs, or where there is no call.
    """
    workbook, passed = workbook_of(playbook), _passed(playbook)
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


def _passed(playbook: Playbook) -> dict[str, list[Value]]:
    """Step -> what the ways to it pass."""
    found: dict[str, list[Value]] = {}
    for step in playbook.steps:
        for arc in arcs_of(step):
            found.setdefault(arc.to.text, []).append(arc.args)
    return found


def _names(values: list[Value]) -> frozenset[str] | None:
    if any(isinstance(value.data, str) for value in values):
        return None
    return frozenset(name for value in values for name in names_in(value))
