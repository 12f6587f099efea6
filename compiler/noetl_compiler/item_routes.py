"""Find the steps on the item routes of loops (dev/decisions/0067).

A loop with ``loop.next`` has item routes: when its tasks have ended for an item, the route is followed for this item
alone. It includes every step reachable from its targets, up to the final step. A step may be on the item routes of
several loops, and other routes may lead to it, too; it runs wherever a route leads to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from noetl_compiler.regions import MAX_REPEATED_STEPS, Regions
from noetl_compiler.syntax import Playbook, Step
from noetl_compiler.syntax_queries import arcs_of, item_arcs_of

__all__ = ["steps_on_item_routes", "steps_outside_item_routes"]


def steps_on_item_routes(playbook: Playbook, regions: Regions, final: str) -> dict[str, frozenset[str]]:
    """Return loop -> the steps on its item routes. The regions of loops over steps are left out. So are all loops after
    the one with which the steps exceed MAX_REPEATED_STEPS.
    """
    steps = {step.name.text: step for step in playbook.steps}
    steps_by_loop: dict[str, frozenset[str]] = {}
    count = 0
    for step in playbook.steps:
        targets = [arc.target.text for arc in item_arcs_of(step)]
        if targets and count <= MAX_REPEATED_STEPS:
            steps_by_loop[step.name.text] = _reachable_steps(steps, targets, regions, final)
            count += len(steps_by_loop[step.name.text])
    return steps_by_loop


def steps_outside_item_routes(playbook: Playbook, regions: Regions, entry: str, final: str) -> frozenset[str]:
    """Return the steps that are reachable from ``entry`` without an item route."""
    return _reachable_steps({step.name.text: step for step in playbook.steps}, [entry], regions, final)


def _reachable_steps(steps: Mapping[str, Step], starts: Iterable[str], regions: Regions, final: str) -> frozenset[str]:
    """Return the steps reachable from ``starts``, these included. Past a loop over steps, only its end is followed."""
    reachable_steps: set[str] = set()
    pending = list(starts)
    while pending:
        name = pending.pop()
        if name in reachable_steps or name not in steps or name == final:
            continue
        reachable_steps.add(name)
        end = regions.ends.get(name)
        pending += [arc.target.text for arc in arcs_of(steps[name])] if end is None else [end.name.text]
    return frozenset(reachable_steps)
