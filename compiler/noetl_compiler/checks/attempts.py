"""Retries that ask for more calls than one call may have."""

from __future__ import annotations

from noetl_compiler.codes import Code
from noetl_compiler.language.defaults import MOST_ATTEMPTS
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook, Rule
from noetl_compiler.syntax_queries import all_tasks

__all__ = ["warn_of_too_many_attempts"]

_HINT = "a delay makes the retries last longer"


def warn_of_too_many_attempts(playbook: Playbook, report: Report) -> None:
    """NT106. What a template asks for is not known here; the limit holds for it as well."""
    for task in all_tasks(playbook):
        rules = task.policy.rules if task.policy else ()
        rule = next((rule for rule in rules if _asks_for_too_many(rule)), None)
        if rule is not None:
            message = f'task "{task.label.text}" is called at most {MOST_ATTEMPTS:,} times: its retry asks for more'
            report.warning(Code.WRONG_VALUE, rule.body.span, message, _HINT)


def _asks_for_too_many(rule: Rule) -> bool:
    asked = rule.body.attempts.data if rule.body.attempts else None
    return rule.body.do == "retry" and isinstance(asked, int | float) and asked > MOST_ATTEMPTS
