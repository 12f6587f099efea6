"""Steps that no route leads to."""

from __future__ import annotations

from collections.abc import Mapping

from noetl_compiler.checks.parse_gaps import has_unparsed_route
from noetl_compiler.codes import Code
from noetl_compiler.language.defaults import FINAL_STEP
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook, Step
from noetl_compiler.syntax_queries import all_arcs_of, entry_name_of, final_name_of

__all__ = ["warn_of_unreachable_steps"]


def warn_of_unreachable_steps(playbook: Playbook, report: Report) -> None:
    """Report NT205. The final step is always reachable. Nothing is reported while a route is invalid or a name is
    duplicated, because that may be the cause.
    """
    steps = {step.name.text: step for step in playbook.steps}
    if not steps or _has_another_cause(playbook, steps, report):
        return
    reachable_steps: set[str] = set()
    pending = [entry_name_of(playbook), final_name_of(playbook)]
    while pending:
        name = pending.pop()
        if name in reachable_steps or name not in steps:
            continue
        reachable_steps.add(name)
        pending += [arc.target.text for arc in all_arcs_of(steps[name])]
    for step in playbook.steps:
        if step.name.text not in reachable_steps:
            message = f'step "{step.name.text}" is unreachable'
            report.warning(Code.UNREACHABLE_STEP, step.name.span, message, "route to it, or remove it")


def _targets(playbook: Playbook) -> set[str]:
    """Return the targets of all routes, and the entry."""
    targets = {arc.target.text for step in playbook.steps for arc in all_arcs_of(step)}
    return targets if playbook.entry is None else {*targets, playbook.entry.text}


def _has_another_cause(playbook: Playbook, steps: Mapping[str, Step], report: Report) -> bool:
    if len(steps) < len(playbook.steps) or _targets(playbook) - {*steps, FINAL_STEP}:
        return True
    return has_unparsed_route(playbook, report)
