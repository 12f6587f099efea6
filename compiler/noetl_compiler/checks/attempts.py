"""Retries with more attempts than the limit."""

from __future__ import annotations

from noetl_compiler.codes import Code
from noetl_compiler.language.defaults import MAX_ATTEMPTS
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook, Rule
from noetl_compiler.syntax_queries import all_tasks

__all__ = ["warn_of_too_many_attempts"]

_HINT = "to retry for a longer time, increase the delay"


def warn_of_too_many_attempts(playbook: Playbook, report: Report) -> None:
    """Report NT106 for literal numbers. The limit also applies to what a template yields."""
    for task in all_tasks(playbook):
        rules = task.policy.rules if task.policy else ()
        rule = next((rule for rule in rules if _exceeds_limit(rule)), None)
        if rule is not None:
            message = f'task "{task.label.text}" has more attempts than the limit of {MAX_ATTEMPTS:,}'
            report.warning(Code.WRONG_VALUE, rule.body.span, message, _HINT)


def _exceeds_limit(rule: Rule) -> bool:
    attempts = rule.body.attempts.data if rule.body.attempts else None
    return rule.body.do == "retry" and isinstance(attempts, int | float) and attempts > MAX_ATTEMPTS
