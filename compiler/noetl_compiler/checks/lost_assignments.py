"""Assignments to ``iter.*`` that nothing can read.

The names below ``iter`` belong to one iteration of a loop (semantics.md 12). In a step without a loop they last
until the step ends: its later tasks and its routes see them, as in older pagination; no other step does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from noetl_compiler.codes import Code
from noetl_compiler.graph import Assign
from noetl_compiler.regions import regions_of
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook, Step
from noetl_compiler.syntax_queries import arcs_of, assigns_of_task, entry_name_of, final_name_of
from noetl_compiler.templating.analysis import analyse_template
from noetl_compiler.templating.template_uses import RenderedAt, template_uses

__all__ = ["warn_of_lost_assignments"]

_ITER = "iter."
_AFTER_THE_LOOP = (RenderedAt.AFTER, RenderedAt.ARC)


def warn_of_lost_assignments(playbook: Playbook, report: Report) -> None:
    """Report NT407. Steps in the region of a loop are left out: their iteration continues after them."""
    if not any(True for step in playbook.steps for _ in _assignments_for_step(step)):
        return
    steps_in_regions = regions_of(playbook, entry_name_of(playbook), final_name_of(playbook)).innermost_loop
    names_read = _names_read_by_steps(playbook)
    for step in playbook.steps:
        if step.name.text in steps_in_regions:
            continue
        on_routes = [assign for arc in arcs_of(step) for assign in arc.set]
        for assign in _assignments_for_step(step):
            is_on_route = any(assign is other for other in on_routes)
            if is_on_route or not {_assigned_name(assign), "iter"} & names_read[step.name.text]:
                _report(assign, is_on_route, report)


def _assignments_for_step(step: Step) -> Iterator[Assign]:
    """Yield what is set below ``iter`` for the step as a whole, not for one of its iterations."""
    for task in step.tasks if step.loop is None else ():
        yield from filter(_targets_iter, assigns_of_task(task))
    yield from filter(_targets_iter, step.set)
    for arc in arcs_of(step):
        yield from filter(_targets_iter, arc.set)


def _targets_iter(assign: Assign) -> bool:
    return assign.target.startswith(_ITER)


def _assigned_name(assign: Assign) -> str:
    return assign.target.removeprefix(_ITER).partition(".")[0].partition("[")[0]


def _names_read_by_steps(playbook: Playbook) -> dict[str, set[str]]:
    """Return the names below ``iter`` that the templates of each step read: bare, or after ``iter.``. Those that are
    rendered inside an iteration of the step's loop are left out: ``iter`` is another there.
    """
    names: defaultdict[str, set[str]] = defaultdict(set)
    for use in template_uses(playbook):
        if use.step is None or (use.step.loop is not None and use.rendered_at not in _AFTER_THE_LOOP):
            continue
        analysis = analyse_template(use.template.source)
        for path in (*analysis.required_paths, *analysis.tested_paths):
            names[use.step.name.text].add(path.removeprefix(_ITER).partition(".")[0])
    return names


def _report(assign: Assign, is_on_route: bool, report: Report) -> None:
    name = assign.target.removeprefix(_ITER)
    reason = (
        "a route is taken when the step has ended"
        if is_on_route
        else "it lasts until the step ends, and nothing in the step reads it"
    )
    message = f'"{assign.target}" is set outside of an iteration and lost: {reason}'
    report.warning(Code.LOST_ASSIGNMENT, assign.span, message, f"write ctx.{name}, which later steps can read")
