"""Cycles of steps that a run never leaves.

A step has an exit if possibly none of its routes is taken, or if one of them leads to a step that has an exit. The
search goes backwards from the steps that have one. The remaining steps are trapped: all their routes lead to trapped
steps, so following the first route of each finds a cycle. This takes linear time.
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
    """Report NT210."""
    steps = {step.name.text: step for step in playbook.steps}
    for cycle in _find_cycles(_trapped_steps(steps)):
        first, *others = sorted((steps[name].name for name in cycle), key=lambda name: name.span)
        related = tuple(Related(other.span, "this step is part of it") for other in others)
        message = f'the steps after "{first.text}" form a cycle that no route leaves'
        report.warning(Code.ENDLESS_CYCLE, first.span, message, "add a route with a condition", related)


def _trapped_steps(steps: Mapping[str, Step]) -> dict[str, str]:
    """Return the steps without an exit, each with its first successor."""
    successors = {name: _certain_successors(step) for name, step in steps.items()}
    predecessors: dict[str, list[str]] = {}
    for name, targets in successors.items():
        for target in targets:
            predecessors.setdefault(target, []).append(name)
    steps_with_exit = [name for name, targets in successors.items() if not targets]
    steps_with_exit += [target for target in predecessors if target not in steps]
    trapped_steps = {name: targets[0] for name, targets in successors.items() if targets}
    while steps_with_exit:
        for source in predecessors.get(steps_with_exit.pop(), ()):
            if trapped_steps.pop(source, None) is not None:
                steps_with_exit.append(source)
    return trapped_steps


def _find_cycles(successors: Mapping[str, str]) -> Iterator[list[str]]:
    """Yield the cycles of a graph in which every node has one successor, each once."""
    visited_steps: set[str] = set()
    for start in successors:
        path: dict[str, None] = {}
        name = start
        while name not in visited_steps and name not in path:
            path[name] = None
            name = successors[name]
        visited_steps.update(path)
        if name in path:
            yield list(path)[list(path).index(name) :]


def _certain_successors(step: Step) -> list[str]:
    """Return the targets of a step's routes if one of them is always taken; an empty list if possibly none is."""
    if step.next is None or step.admit:
        return []
    targets: list[str] = []
    is_certain = False
    for arc in arcs_of(step):
        targets.append(arc.target.text)
        holds = holds_after(arc.when, "ok", after_loop=step.has_loop_outcome)
        is_certain = is_certain or bool(holds)
        if is_certain and step.next.mode == "exclusive":
            return targets
    return targets if is_certain else []
