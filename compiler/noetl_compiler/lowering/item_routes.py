"""Find the steps on the routes of a loop's items (dev/decisions/0067)."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from noetl_compiler.graph import Step

__all__ = ["with_item_regions"]


def with_item_regions(steps: Mapping[str, Step], final: str) -> dict[str, Step]:
    """Return the steps, in which each loop whose items have routes has the steps on these routes as its region, in the
    order of the text.
    """
    return {name: _with_region(steps, step, final) for name, step in steps.items()}


def _with_region(steps: Mapping[str, Step], step: Step, final: str) -> Step:
    loop = step.loop
    if loop is None or loop.entry_route is None or loop.end:
        return step
    on_routes: set[str] = set()
    pending = [arc.target for arc in loop.entry_route.arcs]
    while pending:
        name = pending.pop()
        if name not in on_routes and name != final:
            on_routes.add(name)
            pending += [arc.target for arc in steps[name].route.arcs]
    if not on_routes:
        return replace(step, loop=replace(loop, entry_route=None))
    return replace(step, loop=replace(loop, region=tuple(name for name in steps if name in on_routes)))
