"""The order in which steps are shown: along the routes from the entry."""

from __future__ import annotations

from noetl_compiler.conditions import arc_condition
from noetl_compiler.graph import Graph, Step

__all__ = ["can_fall_to_final", "reading_order", "unreached_steps"]


def reading_order(graph: Graph) -> list[Step]:
    """Return the reachable steps, a loop's region then its successors; then unreachable steps, then the final one."""
    names = [*_reached_steps(graph), *unreached_steps(graph)]
    steps = [graph.steps[name] for name in names if name != graph.final]
    return [*steps, graph.steps[graph.final]] if graph.final in graph.steps else steps


def unreached_steps(graph: Graph) -> list[str]:
    """Return the steps that no route reaches. The final step is always reachable, by a failure if nothing else."""
    reached_names = set(_reached_steps(graph))
    return [name for name in graph.steps if name not in reached_names and name != graph.final]


def can_fall_to_final(graph: Graph, step: Step) -> bool:
    """Whether a successful step can go to the final step because none of its arcs matches."""
    conditions = [arc_condition(arc, "loop" if step.loop else "call") for arc in step.route.arcs]
    is_closed = any(
        condition.on_status != "error" and not condition.cause and not condition.remainder for condition in conditions
    )
    return step.name != graph.final and step.route.on_no_match == "end" and not (is_closed and not step.admit)


def _reached_steps(graph: Graph) -> list[str]:
    order: list[str] = []
    visited_steps: set[str] = set()
    waiting = [graph.entry]
    while waiting:
        name = waiting.pop(0)
        if name in visited_steps or name not in graph.steps:
            continue
        visited_steps.add(name)
        order.append(name)
        step = graph.steps[name]
        region = step.loop.region if step.loop else ()
        waiting = [*region, *waiting, *(arc.target for arc in step.route.arcs)]
    return order
