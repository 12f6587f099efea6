"""Names that several parallel iterations set."""

from __future__ import annotations

from collections.abc import Iterator

from noetl_compiler.codes import Code
from noetl_compiler.graph import Assign
from noetl_compiler.item_routes import steps_on_item_routes
from noetl_compiler.regions import Regions, regions_of
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook, Step
from noetl_compiler.syntax_queries import (
    all_arcs_of,
    assigns_of_task,
    calls_of,
    entry_name_of,
    final_name_of,
    item_arcs_of,
    workbook_of,
)

__all__ = ["warn_of_parallel_set"]


def warn_of_parallel_set(playbook: Playbook, report: Report) -> None:
    """Report NT402. The ``set`` of the loop's own step runs once, after the loop, so it is not checked."""
    for assign in _parallel_assignments(playbook):
        if assign.target.startswith("ctx.") and not assign.target.endswith("]"):
            message = f'parallel iterations all set "{assign.target}", and the last one wins'
            hint = "set iter.* here, add to a list with ctx.name[], or read the loop's results after it"
            report.warning(Code.PARALLEL_SET, assign.span, message, hint)


def _parallel_assignments(playbook: Playbook) -> Iterator[Assign]:
    """Yield what each iteration of a parallel loop sets: in the tasks of its step and in the steps of its region."""
    workbook = workbook_of(playbook)
    parallel_loops = {step.name.text for step in playbook.steps if _is_parallel(step)}
    repeated_steps = _repeated_steps(playbook, parallel_loops) if parallel_loops else frozenset[str]()
    for step in playbook.steps:
        name = step.name.text
        if name in parallel_loops or name in repeated_steps:
            for called_task in (called_task for task in step.tasks for called_task in calls_of(task, workbook)):
                yield from assigns_of_task(called_task)
        if name in parallel_loops:
            yield from (assign for arc in item_arcs_of(step) for assign in arc.set)
        if name in repeated_steps:
            yield from step.set
            yield from (assign for arc in all_arcs_of(step) for assign in arc.set)


def _is_parallel(step: Step) -> bool:
    return step.loop is not None and step.loop.body.is_parallel


def _repeated_steps(playbook: Playbook, parallel_loops: set[str]) -> frozenset[str]:
    """Return the steps in the regions of parallel loops, at any depth, and on their item routes."""
    if not playbook.steps:
        return frozenset()
    final = final_name_of(playbook)
    regions = regions_of(playbook, entry_name_of(playbook), final)
    route_steps = steps_on_item_routes(playbook, regions, final)
    repeated_steps = {name for loop in parallel_loops for name in route_steps.get(loop, ())}
    for name in regions.innermost_loop:
        if not parallel_loops.isdisjoint(_enclosing_loops(name, regions)):
            repeated_steps.add(name)
    return frozenset(repeated_steps)


def _enclosing_loops(name: str, regions: Regions) -> set[str]:
    """Return the loops that repeat a step."""
    loops: set[str] = set()
    while (name := regions.innermost_loop.get(name, "")) and name not in loops:
        loops.add(name)
    return loops
