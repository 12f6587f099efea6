"""Steps to which no way leads."""

from __future__ import annotations

from noetl_compiler.codes import Code
from noetl_compiler.lower import END, entry_of, final_of
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook

__all__ = ["warn_of_unreachable_steps"]


def warn_of_unreachable_steps(playbook: Playbook, report: Report) -> None:
    """NT205. The final step is always reached. Silent while a target is unknown or a name is taken twice, for
    that is the cause then.
    """
    steps = {step.name.text: step for step in playbook.steps}
    targets = {arc.to.text for step in playbook.steps if step.next for group in step.next.groups for arc in group}
    if not steps or len(steps) < len(playbook.steps) or targets - {*steps, END}:
        return
    reached: set[str] = set()
    waiting = [entry_of(playbook), final_of(playbook)]
    while waiting:
        name = waiting.pop()
        if name in reached or name not in steps:
            continue
        reached.add(name)
        following = steps[name].next
        waiting += [arc.to.text for group in following.groups for arc in group] if following else []
    for step in playbook.steps:
        if step.name.text not in reached:
            message = f'nothing leads to step "{step.name.text}", so it never runs'
            report.warning(Code.UNREACHABLE_STEP, step.name.span, message, "name it in a way on, or remove it")
