"""Policies that ignore errors implicitly."""

from __future__ import annotations

import re

from noetl_compiler.checks.outcomes import holds_after
from noetl_compiler.codes import Code
from noetl_compiler.graph import Rule
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook, Policy
from noetl_compiler.syntax_queries import all_tasks

__all__ = ["warn_of_unmatched_errors"]

_HINT = "add - else: {then: {do: fail}}, or on_unmatched: fail"
_NEVER_FAIL = frozenset({"noop"})
_OUTCOME_NAMES = re.compile(r"\b(?:status|status_code|success|error|last_error|event|http|pg|py)\b")


def warn_of_unmatched_errors(playbook: Playbook, report: Report) -> None:
    """Report NT401. A policy without a matching rule continues, even after an error (semantics.md 17)."""
    if playbook.dialect != "v10":
        return
    for task in all_tasks(playbook):
        policy = task.policy
        if policy is None or policy.unmatched is not None or task.kind.text in _NEVER_FAIL:
            continue
        if report.has_error_in(policy.span):
            continue
        if message := _message_about_unmatched_errors(policy, task.label.text):
            report.warning(Code.ERRORS_UNMATCHED, policy.span, message, _HINT)


def _message_about_unmatched_errors(policy: Policy, label: str) -> str:
    """Return a message about errors that the rules do not match; "" if they match all."""
    rules = [(rule.body, holds_after(rule.body.when, "error")) for rule in policy.rules if rule.body.on_status != "ok"]
    if any(holds for _, holds in rules):
        return ""
    if any(holds is None and _reads_outcome(rule) for rule, holds in rules):
        return f'the rules of task "{label}" handle only some errors: after any other the step continues'
    return f'no rule of task "{label}" handles errors: the step continues after a failed call'


def _reads_outcome(rule: Rule) -> bool:
    """Whether a rule reads the outcome of the call; anything else that it reads exists only after a success."""
    return rule.when is not None and _OUTCOME_NAMES.search(rule.when.source) is not None
