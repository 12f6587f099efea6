"""Steps to which no way leads."""

from __future__ import annotations

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import nearest
from noetl_compiler.lower import END, entry_of, final_of
from noetl_compiler.nodes import MappingNode, Node, SequenceNode
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook
from noetl_compiler.walks import arcs_of

__all__ = ["warn_of_unreachable_steps"]

_WAYS = ("next", "case")
"""Keys of a step that say what follows it."""


def warn_of_unreachable_steps(playbook: Playbook, report: Report) -> None:
    """NT205. The final step is always reached. Silent while a way is wrong or a name is taken twice, for that is the
    cause then.
    """
    steps = {step.name.text: step for step in playbook.steps}
    if not steps or len(steps) < len(playbook.steps) or _named(playbook) - {*steps, END} or _has_broken_way(report):
        return
    reached: set[str] = set()
    waiting = [entry_of(playbook), final_of(playbook)]
    while waiting:
        name = waiting.pop()
        if name in reached or name not in steps:
            continue
        reached.add(name)
        waiting += [arc.to.text for arc in arcs_of(steps[name])]
    for step in playbook.steps:
        if step.name.text not in reached:
            message = f'nothing leads to step "{step.name.text}", so it never runs'
            report.warning(Code.UNREACHABLE_STEP, step.name.span, message, "name it in a way on, or remove it")


def _named(playbook: Playbook) -> set[str]:
    """The steps that something leads to."""
    targets = {arc.to.text for step in playbook.steps for arc in arcs_of(step)}
    return targets if playbook.entry is None else {*targets, playbook.entry.text}


def _has_broken_way(report: Report) -> bool:
    """Whether what a step says of its ways on, or its name, could not be understood."""
    workflow = report.root.get("workflow") if isinstance(report.root, MappingNode) else None
    steps = workflow.items if isinstance(workflow, SequenceNode) else ()
    return any(_is_broken(step, report) for step in steps if report.has_error_in(step.span))


def _is_broken(step: Node, report: Report) -> bool:
    if not isinstance(step, MappingNode) or step.get("step") is None:
        return True
    for key, node in step.entries:
        if key.text in _WAYS and report.has_error_in(node.span):
            return True
        if report.has_error_in(key.span) and nearest(key.text, _WAYS):
            return True
    return False
