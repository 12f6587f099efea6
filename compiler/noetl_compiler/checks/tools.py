"""Unknown and unsupported tools, and calls of workbook tasks that do not exist."""

from __future__ import annotations

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import did_you_mean, did_you_mean_or_list
from noetl_compiler.report import Report
from noetl_compiler.syntax import Name, Playbook, Task
from noetl_compiler.syntax_queries import all_tasks, workbook_of

__all__ = ["forbid_unknown_tools"]


def forbid_unknown_tools(playbook: Playbook, report: Report) -> None:
    """Report NT501, NT502 and NT503."""
    workbook = workbook_of(playbook)
    for task in all_tasks(playbook):
        if task.kind.text == "workbook":
            _check_call(task, workbook, report)
        else:
            _check_kind(task.kind, report)


def _check_kind(kind: Name, report: Report) -> None:
    tool = report.tools.get(kind.text)
    if tool is None:
        install_hint = "install the package that provides it: noetl explain NT501"
        similar = did_you_mean(kind.text, report.tools)
        hint = f"{similar} If not, {install_hint}" if similar else install_hint
        report.error(Code.UNKNOWN_TOOL, kind.span, f'unknown tool kind "{kind.text}"', hint)
    elif tool.problem:
        report.error(Code.UNKNOWN_TOOL, kind.span, f'tool kind "{kind.text}" cannot be used: {tool.problem}')
    elif not tool.has_executor and report.first_time(f"tool {kind.text}"):
        message = f'tool kind "{kind.text}" is not supported: the playbook compiles, but a run is refused'
        report.warning(Code.NO_EXECUTOR, kind.span, message, tool.unsupported)


def _check_call(task: Task, workbook: dict[str, Task], report: Report) -> None:
    """Follow the calls: each called task must exist, and they must not form a cycle."""
    visited_tasks: set[str] = set()
    while (name := task.workbook) is not None:
        if name.text not in workbook:
            message = f'the workbook has no task "{name.text}"'
            hint = did_you_mean_or_list(name.text, workbook, "its tasks are")
            report.error(Code.UNKNOWN_WORKBOOK_TASK, name.span, message, hint)
            return
        if name.text in visited_tasks:
            message = f'the workbook task "{name.text}" calls itself'
            report.error(Code.UNKNOWN_WORKBOOK_TASK, name.span, message)
            return
        visited_tasks.add(name.text)
        task = workbook[name.text]
