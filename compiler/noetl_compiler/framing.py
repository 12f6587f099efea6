"""Which loops run in frames: those with a ``frame``, unless an iteration needs more than one activity can do.

A frame makes a loop faster and changes nothing else, so a loop that cannot have frames runs without them.
"""

from __future__ import annotations

from collections.abc import Mapping

from noetl_compiler.item_routes import steps_on_item_routes
from noetl_compiler.language.tools import PLAYBOOK, WAITS
from noetl_compiler.regions import regions_of
from noetl_compiler.syntax import Playbook, Step, Task
from noetl_compiler.syntax_queries import calls_of, entry_of, final_of, workbook_of

__all__ = ["repeated_steps", "unframed_loops"]


def unframed_loops(playbook: Playbook) -> dict[str, str]:
    """Return the loops with a ``frame`` that has no effect, by step, and what prevents it."""
    repeated, workbook = repeated_steps(playbook), workbook_of(playbook)
    found = {step.name.text: _obstacle(step, workbook, step.name.text in repeated) for step in playbook.steps}
    return {name: why for name, why in found.items() if why is not None}


def repeated_steps(playbook: Playbook) -> frozenset[str]:
    """Return the steps that run in the iterations of a loop, beside its own tasks."""
    if not playbook.steps:
        return frozenset()
    final = final_of(playbook)
    regions = regions_of(playbook, entry_of(playbook), final)
    return frozenset(regions.owner).union(*steps_on_item_routes(playbook, regions, final).values())


def _obstacle(step: Step, workbook: Mapping[str, Task], is_inside: bool) -> str | None:
    if step.loop is None or step.loop.body.frame is None:
        return None
    if is_inside or step.item_routes is not None or not (step.tasks or step.sinks):
        return "the loop has several steps, or is inside of one that has"
    return next((why for task in step.tasks if (why := _obstacle_of(calls_of(task, workbook))) is not None), None)


def _obstacle_of(calls: tuple[Task, ...]) -> str | None:
    kinds = {task.kind.text for task in calls}
    rules = [rule.body for task in calls for rule in (task.policy.rules if task.policy else ())]
    if PLAYBOOK in kinds:
        return "its items call playbooks"
    if kinds & WAITS or any(rule.wait_for is not None for rule in rules):
        return "its items may wait"
    declared = (task.idempotent for task in calls if task.idempotent is not None)
    return "it has a call that must not be repeated (idempotent: false)" if next(declared, True) is False else None
