"""Which steps of a playbook lie inside of loops over steps."""

from __future__ import annotations

from noetl_compiler.graph import Graph

__all__ = ["depth_of", "ended_by", "inside_of"]


def inside_of(graph: Graph, loop: str) -> set[str]:
    """The loop itself, and the steps of its region at any depth: any of them may be how an item of it failed."""
    found = {loop}
    step = graph.steps.get(loop)
    for name in step.loop.region if step is not None and step.loop is not None else ():
        found |= inside_of(graph, name)
    return found


def depth_of(graph: Graph, step: str) -> int:
    """In how many loops over steps the step lies."""
    return sum(step in inside_of(graph, name) - {name} for name in graph.steps)


def ended_by(graph: Graph, end: str) -> str | None:
    """The loop over steps that ends at this step."""
    for step in graph.steps.values():
        if step.loop is not None and step.loop.region and step.route.arcs[0].to == end:
            return step.name
    return None
