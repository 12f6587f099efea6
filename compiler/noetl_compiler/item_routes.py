"""Find the steps on the routes of a loop's items in the syntax tree (dev/decisions/0067).

The route of an item includes every step reachable from it, up to the final step. So a step may be on the routes of
several loops, and may also be reached from elsewhere: it runs wherever it is reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from noetl_compiler.regions import MAX_REPEATED_STEPS, Regions
from noetl_compiler.syntax import Playbook, Step
from noetl_compiler.syntax_queries import arcs_of, item_arcs_of

__all__ = ["reached_without_items", "steps_on_item_routes"]


def steps_on_item_routes(playbook: Playbook, regions: Regions, final: str) -> dict[str, frozenset[str]]:
    """Return loop -> the steps on the routes of its items, without those in regions of loops over steps. Once there are
    more than MAX_REPEATED_STEPS steps in all, the remaining loops are left out.
    """
    steps = {step.name.text: step for step in playbook.steps}
    steps_by_loop: dict[str, frozenset[str]] = {}
    count = 0
    for step in playbook.steps:
        starts = [arc.to.text for arc in item_arcs_of(step)]
        if starts and count <= MAX_REPEATED_STEPS:
            steps_by_loop[step.name.text] = _reachable_steps(steps, starts, regions, final)
            count += len(steps_by_loop[step.name.text])
    return steps_by_loop


def reached_without_items(playbook: Playbook, regions: Regions, entry: str, final: str) -> frozenset[str]:
    """Return the steps that are reachable from ``entry`` without following the route of an item."""
    return _reachable_steps({step.name.text: step for step in playbook.steps}, [entry], regions, final)


def _reachable_steps(steps: Mapping[str, Step], starts: Iterable[str], regions: Regions, final: str) -> frozenset[str]:
    reachable_steps: set[str] = set()
    pending = list(starts)
    while pending:
        name = pending.pop()
        if name in reachable_steps or name not in steps or name == final:
            continue
        reachable_steps.add(name)
        end = regions.ends.get(name)
        pending += [arc.to.text for arc in arcs_of(steps[name])] if end is None else [end.name.text]
    return frozenset(reachable_steps)
