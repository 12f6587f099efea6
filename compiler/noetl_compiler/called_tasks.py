"""Which tasks of the workbook are called by anybody."""

from __future__ import annotations

from collections.abc import Iterable

from noetl_compiler.syntax import Step, Task

__all__ = ["called_tasks"]


def called_tasks(steps: Iterable[Step], workbook: Iterable[Task]) -> frozenset[str]:
    """The names that steps and tasks of the workbook call."""
    tasks = (*workbook, *(task for step in steps for task in step.tasks))
    return frozenset(task.workbook.text for task in tasks if task.workbook is not None)
