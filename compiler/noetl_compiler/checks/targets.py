"""Routes, entry, final step and jumps must name something that exists."""

from __future__ import annotations

from collections.abc import Mapping

from noetl_compiler.checks.parse_gaps import names_in_unparsed_items
from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import did_you_mean_or_list
from noetl_compiler.language.defaults import FINAL_STEP
from noetl_compiler.language.keys import PREVIOUS
from noetl_compiler.report import Report
from noetl_compiler.syntax import Name, Playbook, Step, Task
from noetl_compiler.syntax_queries import all_arcs_of, calls_of, final_name_of, workbook_of

__all__ = ["forbid_unknown_targets"]


def forbid_unknown_targets(playbook: Playbook, report: Report) -> None:
    """Report NT203, NT204 and NT206. ``end`` always exists: it is injected if missing."""
    names, workbook = {step.name.text for step in playbook.steps}, workbook_of(playbook)
    names_in_gaps = names_in_unparsed_items(playbook, report)
    reachable = {*names, FINAL_STEP}
    for name in (playbook.entry, playbook.final):
        _check_step(name, names, names_in_gaps, report)
    for step in playbook.steps:
        for arc in all_arcs_of(step):
            _check_step(arc.target, reachable, names_in_gaps, report)
        _check_jumps(step, workbook, report)
        if playbook.no_next_is_error and step.next is None and step.name.text != final_name_of(playbook):
            message = f'step "{step.name.text}" has no "next"'
            report.error(Code.MISSING_NEXT, step.name.span, message, "the executor requires one: no_next_is_error")


def _check_step(name: Name | None, names: set[str], names_in_gaps: frozenset[str], report: Report) -> None:
    if name is not None and name.text not in names and name.text not in names_in_gaps:
        hint = did_you_mean_or_list(name.text, names, "steps are")
        report.error(Code.UNKNOWN_STEP, name.span, f'unknown step "{name.text}"', hint)


def _check_jumps(step: Step, workbook: Mapping[str, Task], report: Report) -> None:
    """Report jumps to unknown tasks. A jump in a workbook task goes to a task of the step that calls it."""
    labels = {task.label.text for task in step.tasks}
    for index, task in enumerate(step.tasks):
        policy = next((called_task.policy for called_task in calls_of(task, workbook) if called_task.policy), None)
        for rule in policy.rules if policy else ():
            if rule.to is None or rule.to.text in labels:
                continue
            if rule.to.text in PREVIOUS and index > 0:
                continue
            message = f'step "{step.name.text}" has no task "{rule.to.text}" to jump to'
            hint = did_you_mean_or_list(rule.to.text, labels, "its tasks are")
            report.error(Code.UNKNOWN_LABEL, rule.to.span, message, hint)
