"""Find loops whose ``frame`` has no effect, because their iterations do something that is not possible in an activity.

A frame only makes a loop faster, so such a loop runs without it.
"""

from __future__ import annotations

from collections.abc import Mapping

from noetl_compiler.item_routes import steps_on_item_routes
from noetl_compiler.language.tools import PLAYBOOK, WAIT_KINDS
from noetl_compiler.regions import regions_of
from noetl_compiler.syntax import Playbook, Step, Task
from noetl_compiler.syntax_queries import calls_of, entry_name_of, final_name_of, workbook_of

__all__ = ["repeated_steps", "unframed_loops"]


def unframed_loops(playbook: Playbook) -> dict[str, str]:
    """Return step -> why the ``frame`` of its loop has no effect."""
    repeated_names, workbook = repeated_steps(playbook), workbook_of(playbook)
    reasons = {
        step.name.text: _reason_of_step(step, workbook, step.name.text in repeated_names) for step in playbook.steps
    }
    return {name: reason for name, reason in reasons.items() if reason is not None}


def repeated_steps(playbook: Playbook) -> frozenset[str]:
    """Return the steps in the regions and on the item routes of loops."""
    if not playbook.steps:
        return frozenset()
    final = final_name_of(playbook)
    regions = regions_of(playbook, entry_name_of(playbook), final)
    return frozenset(regions.innermost_loop).union(*steps_on_item_routes(playbook, regions, final).values())


def _reason_of_step(step: Step, workbook: Mapping[str, Task], is_repeated: bool) -> str | None:
    if step.loop is None or step.loop.body.frame is None:
        return None
    if is_repeated or step.item_routes is not None or not (step.tasks or step.sinks):
        return "the loop has several steps, or is inside of one that has"
    return next(
        (reason for task in step.tasks if (reason := _reason_of_calls(calls_of(task, workbook))) is not None), None
    )


def _reason_of_calls(calls: tuple[Task, ...]) -> str | None:
    kinds = {task.kind.text for task in calls}
    rules = [rule.body for task in calls for rule in (task.policy.rules if task.policy else ())]
    if PLAYBOOK in kinds:
        return "its items call playbooks"
    if kinds & WAIT_KINDS or any(rule.wait_for is not None for rule in rules):
        return "its items may wait"
    declarations = (task.idempotent for task in calls if task.idempotent is not None)
    return "it has a call that must not be repeated (idempotent: false)" if next(declarations, True) is False else None
