"""Workbook tasks that no step calls."""

from __future__ import annotations

from noetl_compiler.checks.parse_gaps import names_in_unparsed_items
from noetl_compiler.codes import Code
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook
from noetl_compiler.syntax_queries import called_task_names

__all__ = ["warn_of_unused_tasks"]


def warn_of_unused_tasks(playbook: Playbook, report: Report) -> None:
    """Report NT505, except while a call is invalid or a step could not be parsed: that may be the cause."""
    tasks_with_calls = called_task_names(playbook.steps, playbook.workbook)
    if tasks_with_calls - {task.label.text for task in playbook.workbook} or names_in_unparsed_items(playbook, report):
        return
    for task in playbook.workbook:
        if task.label.text and task.label.text not in tasks_with_calls:
            message = f'the workbook task "{task.label.text}" is never called'
            report.warning(Code.UNUSED_WORKBOOK_TASK, task.label.span, message)
