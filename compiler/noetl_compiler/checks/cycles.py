"""Cycles of steps which a run never leaves.

A step has a way out when it leads nowhere, when none of its conditions need hold, or when it leads to a step that has
a way out. What is left after that has been followed back from the ends is trapped: whatever way is taken from there,
it comes round. So following the first way of each is enough to see the cycle, and all of it takes linear time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from noetl_compiler.checks.outcomes import holds_after
from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Related
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook, Step
from noetl_compiler.syntax_queries import arcs_of

__all__ = ["warn_of_endless_cycles"]


def warn_of_endless_cycles(playbook: Playbook, report: Report) -> None:
    """NT210."""
    steps = {step.name.text: step for step in playbook.steps}
    for cycle in _cycles(_trapped(steps)):
        first, *others = sorted((steps[name].name for name in cycle), key=lambda name: name.span)
        related = tuple(Related(other.span, "this step is part of it") for other in others)
        message = f'the steps after "{first.text}" form a cycle that no route leaves'
        report.warning(Code.ENDLESS_CYCLE, first.span, message, "add a route with a condition", related)


def _trapped(steps: Mapping[str, Step]) -> dict[str, str]:
    """The steps without a way out, each with the first it leads to."""
    ways = {name: _only_ways(step) for name, step in steps.items()}
    sources: dict[str, list[str]] = {}
    for name, targets in ways.items():
        for target in targets:
            sources.setdefault(target, []).append(name)
    leaving = [name for name, targets in ways.items() if not targets]
    leaving += [target for target in sources if target not in steps]
    trapped = {name: targets[0] for name, targets in ways.items() if targets}
    while leaving:
        for source in sources.get(leaving.pop(), ()):
            if trapped.pop(source, None) is not None:
                leaving.append(source)
    return trapped


def _cycles(following: Mapping[str, str]) -> Iterator[list[str]]:
    """The cycles that come of following every step to the next, each once."""
    walked: set[str] = set()
    for start in following:
        path: dict[str, None] = {}
        name = start
        while name not in walked and name not in path:
            path[name] = None
            name = following[name]
        walked.update(path)
        if name in path:
            yield list(path)[list(path).index(name) :]


def _only_ways(step: Step) -> list[str]:
    """The targets of which one is always taken; none when it may be that no arc is."""
    if step.next is None or step.admit:
        return []
    targets: list[str] = []
    is_sure = False
    for arc in arcs_of(step):
        targets.append(arc.to.text)
        holds = holds_after(arc.when, "ok", of_loop=step.tells_of_loop)
        is_sure = is_sure or bool(holds)
        if is_sure and step.next.mode == "exclusive":
            return targets
    return targets if is_sure else []
