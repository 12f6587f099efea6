"""Circles of steps which a run never leaves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from noetl_compiler.checks.dead_routes import is_always_true
from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Related
from noetl_compiler.lower import END
from noetl_compiler.report import Report
from noetl_compiler.syntax import Arc, Playbook, Step

__all__ = ["warn_of_endless_cycles"]


def warn_of_endless_cycles(playbook: Playbook, report: Report) -> None:
    """NT210. A step has a way out of a circle when it leads elsewhere, or nowhere because no condition holds."""
    steps = {step.name.text: step for step in playbook.steps}
    told: set[str] = set()
    for name, step in steps.items():
        circle = [other for other in _trapped(name, steps) if name in _trapped(other, steps)]
        if name not in circle or told.intersection(circle):
            continue
        told.update(circle)
        others = tuple(Related(steps[one].name.span, "this step is part of it") for one in circle if one != name)
        message = f'the steps after "{name}" lead back to it, and no way leads out'
        report.warning(Code.ENDLESS_CYCLE, step.name.span, message, "add a way on with a condition", others)


def _trapped(name: str, steps: Mapping[str, Step]) -> list[str]:
    """The steps after one, in order, when there is no way out of them; none otherwise."""
    found: dict[str, None] = {}
    waiting = [name]
    while waiting:
        following = _only_ways(steps[waiting.pop()])
        if not following or any(arc.to.text not in steps or arc.to.text == END for arc in following):
            return []
        new = [arc.to.text for arc in following if arc.to.text not in found]
        found.update(dict.fromkeys(new))
        waiting += new
    return list(found)


def _only_ways(step: Step) -> list[Arc]:
    """The arcs of which one is always taken; none when it may be that no arc is."""
    if step.next is None or step.admit:
        return []
    ways: list[Arc] = []
    for arc in _in_order(step):
        ways.append(arc)
        if is_always_true(arc.when) and step.next.mode == "exclusive":
            return ways
    return ways if any(is_always_true(arc.when) for arc in ways) else []


def _in_order(step: Step) -> Iterator[Arc]:
    for group in step.next.groups if step.next else ():
        yield from group
