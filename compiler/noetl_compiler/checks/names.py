"""Names of steps, tasks and workbook tasks must be unique and printable."""

from __future__ import annotations

from collections.abc import Iterable

from noetl_compiler.codes import Code
from noetl_compiler.control_characters import report_control_character
from noetl_compiler.diagnostics import Related
from noetl_compiler.report import Report
from noetl_compiler.syntax import Name, Playbook

__all__ = ["forbid_duplicate_names", "forbid_invalid_names"]


def forbid_duplicate_names(playbook: Playbook, report: Report) -> None:
    """Report NT201 and NT202."""
    _forbid_duplicates((step.name for step in playbook.steps), Code.DUPLICATE_STEP, "step", report)
    _forbid_duplicates((task.label for task in playbook.workbook), Code.DUPLICATE_LABEL, "workbook task", report)
    for step in playbook.steps:
        _forbid_duplicates((task.label for task in step.tasks), Code.DUPLICATE_LABEL, "task", report)


def forbid_invalid_names(playbook: Playbook, report: Report) -> None:
    """Report NT212. The name of the playbook is checked when it is read. A label may be derived from the step's name,
    so it is checked only if that is valid.
    """
    for step in playbook.steps:
        if not report_control_character(step.name.text, step.name.span, report):
            for task in step.tasks:
                report_control_character(task.label.text, task.label.span, report)
    for task in playbook.workbook:
        report_control_character(task.label.text, task.label.span, report)


def _forbid_duplicates(names: Iterable[Name], code: Code, kind: str, report: Report) -> None:
    first_uses: dict[str, Name] = {}
    for name in names:
        earlier = first_uses.setdefault(name.text, name)
        if earlier is not name and name.text:
            related = (Related(earlier.span, "it is first used here"),)
            message = f'duplicate {kind} name "{name.text}"'
            report.error(code, name.span, message, "choose another name", related)
