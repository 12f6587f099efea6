"""The steps on the routes of a loop's items, as the author wrote them (dev/decisions/0067).

A route of an item takes whatever its steps lead to, up to the final step. So a step may be on the routes of several
loops, and be reached from elsewhere as well: it runs in each place that leads to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from noetl_compiler.regions import MAX_REPEATED, Regions
from noetl_compiler.syntax import Playbook, Step
from noetl_compiler.syntax_queries import arcs_of, item_arcs_of

__all__ = ["reached_without_items", "steps_on_item_routes"]


def steps_on_item_routes(playbook: Playbook, regions: Regions, final: str) -> dict[str, frozenset[str]]:
    """Loop -> the steps on the routes of its items, without those in regions of loops over steps. Once these are more
    than MAX_REPEATED in all, the other loops are left out.
    """
    steps = {step.name.text: step for step in playbook.steps}
    found: dict[str, frozenset[str]] = {}
    count = 0
    for step in playbook.steps:
        starts = [arc.to.text for arc in item_arcs_of(step)]
        if starts and count <= MAX_REPEATED:
            found[step.name.text] = _reached(steps, starts, regions, final)
            count += len(found[step.name.text])
    return found


def reached_without_items(playbook: Playbook, regions: Regions, entry: str, final: str) -> frozenset[str]:
    """Return the steps that are reached from the first one without taking the route of an item."""
    return _reached({step.name.text: step for step in playbook.steps}, [entry], regions, final)


def _reached(steps: Mapping[str, Step], starts: Iterable[str], regions: Regions, final: str) -> frozenset[str]:
    reached: set[str] = set()
    waiting = list(starts)
    while waiting:
        name = waiting.pop()
        if name in reached or name not in steps or name == final:
            continue
        reached.add(name)
        end = regions.ends.get(name)
        waiting += [arc.to.text for arc in arcs_of(steps[name])] if end is None else [end.name.text]
    return frozenset(reached)
