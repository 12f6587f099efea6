"""Policies that let errors pass without saying so."""

from __future__ import annotations

import re

from noetl_compiler.codes import Code
from noetl_compiler.graph import Rule, Template
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook, Policy

__all__ = ["is_about_errors", "warn_of_unmatched_errors"]

_ABOUT_ERRORS = re.compile(r"\b(?:status|error|http|pg|py)\b")


def warn_of_unmatched_errors(playbook: Playbook, report: Report) -> None:
    """NT401. A policy without a matching rule continues, even after an error (semantics.md 17)."""
    if playbook.dialect != "v10":
        return
    for task in (*playbook.workbook, *(task for step in playbook.steps for task in step.tasks)):
        if task.policy and not _covers_errors(task.policy):
            message = f'no rule of task "{task.label.text}" covers errors, so a failed call goes on'
            hint = "add - else: {then: {do: fail}}, or on_unmatched: fail"
            report.warning(Code.ERRORS_UNMATCHED, task.policy.span, message, hint)


def _covers_errors(policy: Policy) -> bool:
    return policy.unmatched == "fail" or any(_covers(rule.body) for rule in policy.rules)


def _covers(rule: Rule) -> bool:
    return rule.on != "ok" and (rule.when is None or is_about_errors(rule.when))


def is_about_errors(when: Template | None) -> bool:
    """Whether a condition asks how a call went."""
    return when is not None and _ABOUT_ERRORS.search(when.source) is not None
