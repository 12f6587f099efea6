"""Tasks of the workbook that nobody calls."""

from __future__ import annotations

from noetl_compiler.codes import Code
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook

__all__ = ["warn_of_unused_tasks"]


def warn_of_unused_tasks(playbook: Playbook, report: Report) -> None:
    """NT505. Silent while a call leads nowhere, for that is the cause then."""
    tasks = (*playbook.workbook, *(task for step in playbook.steps for task in step.tasks))
    called = {task.workbook.text for task in tasks if task.workbook is not None}
    if called - {task.label.text for task in playbook.workbook}:
        return
    for task in playbook.workbook:
        if task.label.text and task.label.text not in called:
            message = f'nobody calls the workbook task "{task.label.text}"'
            report.warning(Code.UNUSED_WORKBOOK_TASK, task.label.span, message)
