"""Routes of a loop's items: which steps they may have, and which of these run elsewhere as well."""

from __future__ import annotations

from collections.abc import Mapping

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Related
from noetl_compiler.item_routes import reached_without_items, steps_on_item_routes
from noetl_compiler.regions import MAX_REPEATED, Regions, regions_of
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook, Step
from noetl_compiler.syntax_queries import entry_of, final_of, item_arcs_of

__all__ = ["check_item_routes"]


def check_item_routes(playbook: Playbook, report: Report) -> None:
    """NT109, NT209 and NT411; NT004 where the routes have too many steps."""
    loops = [step for step in playbook.steps if step.item_routes is not None]
    if not loops:
        return
    regions, final = regions_of(playbook, entry_of(playbook), final_of(playbook)), final_of(playbook)
    if regions.excess is not None:
        return
    routes = steps_on_item_routes(playbook, regions, final)
    is_sound = [_check_loop(loop, routes, regions, report) for loop in loops]
    if all(is_sound):
        outside = reached_without_items(playbook, regions, entry_of(playbook), final)
        for step in (one for one in playbook.steps if one.name.text in outside):
            _warn_of_shared(step, [loop for loop in loops if step.name.text in routes[loop.name.text]], report)


def _check_loop(loop: Step, routes: Mapping[str, frozenset[str]], regions: Regions, report: Report) -> bool:
    """Whether the routes of the loop's items are sound."""
    if not loop.tasks:
        message = f'the loop "{loop.name.text}" has no task, so its items have no route'
        report.error(Code.CONFLICTING_FIELDS, loop.name.span, message, 'use "next" of the step')
        return False
    if loop.name.text not in routes:
        message = f"the routes of items have more than {MAX_REPEATED:,} steps, each counted once for every loop"
        report.error(Code.BUDGET_EXCEEDED, loop.name.span, message, "split the playbook")
        return False
    return not (_leads_back(loop, routes, report) or _crosses(loop, routes, regions, report))


def _leads_back(loop: Step, routes: Mapping[str, frozenset[str]], report: Report) -> bool:
    """An item whose route leads to its own loop again, also by the routes of loops on it, would never be done."""
    seen: set[str] = set()
    waiting = [loop.name.text]
    while waiting:
        found = routes.get(waiting.pop(), frozenset[str]()) - seen
        seen |= found
        waiting += [name for name in found if name in routes]
    if loop.name.text not in seen:
        return False
    message = f'the route of an item of "{loop.name.text}" leads back to this loop'
    _refuse(loop, message, "route to the loop again when it has ended, on loop.done", report)
    return True


def _crosses(loop: Step, routes: Mapping[str, frozenset[str]], regions: Regions, report: Report) -> bool:
    """Whether a route leads into the region of a loop over steps, or out of the one around it."""
    own = routes.get(loop.name.text, frozenset())
    ended = {end.name.text: name for name, end in regions.ends.items()}
    for name in sorted(own):
        around = ended.get(name) or regions.owner.get(name)
        if around is not None and around not in own and around != loop.name.text:
            message = f'the route of an item of "{loop.name.text}" leads to "{name}", which belongs to "{around}"'
            _refuse(loop, message, f'route to the loop "{around}" itself, or to other steps', report)
            return True
    return False


def _refuse(loop: Step, message: str, hint: str, report: Report) -> None:
    arc = next(item_arcs_of(loop))
    report.error(Code.REGION_BORDER, arc.to.span, message, hint, (Related(loop.name.span, "the loop is here"),))


def _warn_of_shared(step: Step, loops: list[Step], report: Report) -> None:
    if not loops:
        return
    loop = loops[0]
    message = f'step "{step.name.text}" runs on the route of each item of "{loop.name.text}", and outside of it too'
    hint = "if it belongs to the whole loop, route to it on loop.done only"
    related = (Related(loop.name.span, "the loop is here"),)
    report.warning(Code.SHARED_ROUTE, step.name.span, message, hint, related)
