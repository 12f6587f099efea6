"""Item routes of loops: steps that they must not lead to, and steps that other routes lead to as well."""

from __future__ import annotations

from collections.abc import Mapping

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Related
from noetl_compiler.item_routes import steps_on_item_routes, steps_outside_item_routes
from noetl_compiler.regions import MAX_REPEATED_STEPS, Regions, regions_of
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook, Step
from noetl_compiler.syntax_queries import entry_name_of, final_name_of, item_arcs_of

__all__ = ["check_item_routes"]


def check_item_routes(playbook: Playbook, report: Report) -> None:
    """Report NT109, NT209 and NT411; NT004 if the routes have too many steps."""
    loops = [step for step in playbook.steps if step.item_routes is not None]
    if not loops:
        return
    regions, final = regions_of(playbook, entry_name_of(playbook), final_name_of(playbook)), final_name_of(playbook)
    if regions.loop_over_limit is not None:
        return
    route_steps = steps_on_item_routes(playbook, regions, final)
    are_valid = [_check_loop(loop, route_steps, regions, report) for loop in loops]
    if all(are_valid):
        outside = steps_outside_item_routes(playbook, regions, entry_name_of(playbook), final)
        for step in playbook.steps:
            if step.name.text in outside:
                loops_with_step = [loop for loop in loops if step.name.text in route_steps[loop.name.text]]
                _warn_of_shared_step(step, loops_with_step, report)


def _check_loop(loop: Step, route_steps: Mapping[str, frozenset[str]], regions: Regions, report: Report) -> bool:
    """Return whether the item routes of a loop are valid; report why not. ``route_steps``: loop -> the steps on its
    item routes.
    """
    if not loop.tasks:
        message = f'the loop "{loop.name.text}" has no task, so its items have no route'
        report.error(Code.CONFLICTING_FIELDS, loop.name.span, message, 'use "next" of the step')
        return False
    if loop.name.text not in route_steps:
        message = f"the routes of items have more than {MAX_REPEATED_STEPS:,} steps, each counted once for every loop"
        report.error(Code.BUDGET_EXCEEDED, loop.name.span, message, "split the playbook")
        return False
    if _forbid_return_to_loop(loop, route_steps, report):
        return False
    return not _forbid_crossing(loop, route_steps[loop.name.text], regions, report)


def _forbid_return_to_loop(loop: Step, route_steps: Mapping[str, frozenset[str]], report: Report) -> bool:
    """Report an item route that leads back to its own loop, possibly by the item routes of other loops: the item would
    never end. Return whether there is such a route.
    """
    visited_steps: set[str] = set()
    pending = [loop.name.text]
    while pending:
        new_steps = route_steps.get(pending.pop(), frozenset[str]()) - visited_steps
        visited_steps |= new_steps
        pending += [name for name in new_steps if name in route_steps]
    if loop.name.text not in visited_steps:
        return False
    message = f'the route of an item of "{loop.name.text}" leads back to this loop'
    _report_border(loop, message, "route to the loop again when it has ended, on loop.done", report)
    return True


def _forbid_crossing(loop: Step, route_steps: frozenset[str], regions: Regions, report: Report) -> bool:
    """Report an item route that enters or leaves the region of a loop over steps. Return whether there is one."""
    loops_by_end = regions.loops_by_end
    for name in sorted(route_steps):
        enclosing_loop = loops_by_end.get(name) or regions.innermost_loop.get(name)
        if enclosing_loop is not None and enclosing_loop not in route_steps and enclosing_loop != loop.name.text:
            message = (
                f'the route of an item of "{loop.name.text}" leads to "{name}", which belongs to "{enclosing_loop}"'
            )
            _report_border(loop, message, f'route to the loop "{enclosing_loop}" itself, or to other steps', report)
            return True
    return False


def _report_border(loop: Step, message: str, hint: str, report: Report) -> None:
    arc = next(item_arcs_of(loop))
    report.error(Code.REGION_BORDER, arc.target.span, message, hint, (Related(loop.name.span, "the loop is here"),))


def _warn_of_shared_step(step: Step, loops: list[Step], report: Report) -> None:
    if not loops:
        return
    loop = loops[0]
    message = f'step "{step.name.text}" runs on the route of each item of "{loop.name.text}", and outside of it too'
    hint = "if it belongs to the whole loop, route to it on loop.done only"
    related = (Related(loop.name.span, "the loop is here"),)
    report.warning(Code.SHARED_ROUTE, step.name.span, message, hint, related)
