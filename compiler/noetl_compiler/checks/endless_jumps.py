"""Jumps that repeat tasks without end."""

from __future__ import annotations

from collections.abc import Mapping

from noetl_compiler.checks.outcomes import holds_after
from noetl_compiler.codes import Code
from noetl_compiler.language.keys import PREVIOUS
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook, Rule, Step

__all__ = ["warn_of_endless_jumps"]

_MAX_DISTANCE = 200
"""The longest jump, in tasks, that is checked."""


def warn_of_endless_jumps(playbook: Playbook, report: Report) -> None:
    """Report NT404 if every success jumps back, and no rule of the repeated tasks can leave them after a success."""
    for step in playbook.steps:
        labels = {task.label.text: index for index, task in reversed(list(enumerate(step.tasks)))}
        for index, task in enumerate(step.tasks):
            for rule in task.policy.rules if task.policy else ():
                if _always_jumps_back(rule, index, labels) and not _may_leave(rule, index, step, labels):
                    message = f'task "{task.label.text}" always jumps back, so the step never ends'
                    hint = "give the jump a condition, or put a rule with do: break before it"
                    report.warning(Code.ENDLESS_JUMP, rule.body.span, message, hint)


def _always_jumps_back(rule: Rule, index: int, labels: Mapping[str, int]) -> bool:
    if rule.body.on_status == "error" or not holds_after(rule.body.when, "ok"):
        return False
    if rule.body.do == "again":
        return rule.body.attempts is None
    return index - _MAX_DISTANCE <= _target_index(rule, index, labels) <= index


def _may_leave(jump: Rule, index: int, step: Step, labels: Mapping[str, int]) -> bool:
    """Whether any other rule of the repeated tasks can leave them."""
    first = _target_index(jump, index, labels)
    for position in range(first, index + 1):
        policy = step.tasks[position].policy
        for rule in policy.rules if policy else ():
            if rule is jump:
                break
            if _can_exit(rule, position, (first, index), labels):
                return True
    return False


def _can_exit(rule: Rule, position: int, cycle: tuple[int, int], labels: Mapping[str, int]) -> bool:
    if rule.body.on_status == "error" or holds_after(rule.body.when, "ok") is False:
        return False
    match rule.body.do:
        case "break" | "fail":
            return True
        case "continue":
            return position == cycle[1]
        case "jump":
            return not cycle[0] <= _target_index(rule, position, labels) <= cycle[1]
        case _:
            return False


def _target_index(rule: Rule, index: int, labels: Mapping[str, int]) -> int:
    """Return the index of the task that a rule jumps to; an index past the last task if it does not jump."""
    if rule.to is None:
        return index if rule.body.do == "again" else len(labels)
    if rule.to.text in PREVIOUS and rule.to.text not in labels:
        return max(0, index - 1)
    return labels.get(rule.to.text, len(labels))
