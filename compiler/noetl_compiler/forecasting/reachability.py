"""The edges of a graph after success: which steps run in every run, which may run concurrently, which form cycles.

A run follows one edge of an exclusive route and every matching edge of an inclusive one. So a step always runs if it is
the entry, if it always runs after each edge that an exclusive route may follow, or if it always runs after an
unconditional edge of an inclusive route. Sets of steps are bit masks in integers, so intersections are fast.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import NamedTuple

from noetl_compiler.conditions import Moment, arc_condition
from noetl_compiler.graph import Graph, Step

__all__ = [
    "Edge",
    "Successors",
    "always_run",
    "concurrent_steps",
    "cycles",
    "max_concurrency",
    "postorder",
    "reachable_from",
    "success_edges",
    "successors_of",
]


Successors = Mapping[str, Sequence[str]]
"""Step -> the steps that may follow it if nothing fails, including those that it enters as a loop."""


def successors_of(graph: Graph) -> Successors:
    """Return the successors of every step."""
    return {
        step.name: [name for name in dict.fromkeys(_successor_names(graph, step)) if name in graph.steps]
        for step in graph.steps.values()
    }


class Edge(NamedTuple):
    """An edge that may be followed after success; ``is_unconditional`` if it depends on nothing else."""

    target: str
    is_unconditional: bool


def success_edges(step: Step) -> list[Edge]:
    """Return the edges that may be followed after success, in order.

    In an exclusive route, edges after an unconditional one are unreachable and left out.
    """
    moment: Moment = "loop" if step.loop else "call"
    conditions = [(arc.target, arc_condition(arc, moment)) for arc in step.route.arcs]
    edges = [
        Edge(to, not condition.cause and not condition.remainder)
        for to, condition in conditions
        if condition.on_status != "error"
    ]
    first_unconditional = next((index for index, edge in enumerate(edges) if edge.is_unconditional), len(edges))
    return edges if step.route.mode == "inclusive" or step.admit else edges[: first_unconditional + 1]


def _successor_names(graph: Graph, step: Step) -> Iterator[str]:
    if step.loop and step.loop.entry_route:
        yield from (arc.target for arc in step.loop.entry_route.arcs)
    edges = success_edges(step)
    yield from (edge.target for edge in edges)
    if (
        step.route.on_no_match == "end"
        and step.name != graph.final
        and not any(edge.is_unconditional for edge in edges)
    ):
        yield graph.final


def reachable_from(successors: Successors, starts: Iterable[str]) -> frozenset[str]:
    """Return every step that is reachable from ``starts``, and ``starts`` itself."""
    reachable_steps: set[str] = set()
    pending = list(starts)
    while pending:
        name = pending.pop()
        if name not in reachable_steps:
            reachable_steps.add(name)
            pending += successors.get(name, ())
    return frozenset(reachable_steps)


def postorder(successors: Successors) -> list[str]:
    """Return all steps in postorder: each after its successors, except in cycles."""
    order: dict[str, None] = {}
    entered_steps: set[str] = set()
    for first in successors:
        path = [(first, iter(successors[first]))] if first not in entered_steps else []
        entered_steps.add(first)
        while path:
            name, others = path[-1]
            following = next((other for other in others if other not in entered_steps), None)
            if following is None:
                order[name] = None
                path.pop()
            else:
                entered_steps.add(following)
                path.append((following, iter(successors[following])))
    return list(order)


def cycles(successors: Successors) -> list[frozenset[str]]:
    """Return the strongly connected components that have a cycle (Kosaraju's algorithm)."""
    sources: dict[str, list[str]] = {name: [] for name in successors}
    for name, targets in successors.items():
        for target in targets:
            sources[target].append(name)
    components: list[frozenset[str]] = []
    assigned_steps: set[str] = set()
    for name in reversed(postorder(successors)):
        if name not in assigned_steps:
            group = _component_of(name, sources, assigned_steps)
            assigned_steps |= group
            components += [group] if len(group) > 1 or name in successors[name] else []
    return components


def _component_of(start: str, sources: Successors, assigned_steps: set[str]) -> frozenset[str]:
    """Return the steps that lead to a step, without those already assigned to a component."""
    group: set[str] = set()
    pending = [start]
    while pending:
        name = pending.pop()
        if name not in group and name not in assigned_steps:
            group.add(name)
            pending += sources[name]
    return frozenset(group)


def always_run(graph: Graph, successors: Successors) -> frozenset[str]:
    """Return the steps that no condition can skip: the greatest fixed point, computed from the set of all steps."""
    order = postorder(successors)
    bits = {name: 1 << index for index, name in enumerate(order)}
    always = dict.fromkeys(order, (1 << len(order)) - 1)
    is_settled = False
    while not is_settled:
        is_settled = True
        for name in order:
            step = graph.steps[name]
            new_bits = _always_after(graph, step, always) | (0 if step.admit else bits[name])
            is_settled = is_settled and new_bits == always[name]
            always[name] = new_bits
    return frozenset(name for name in order if always.get(graph.entry, 0) & bits[name])


def _always_after(graph: Graph, step: Step, always: Mapping[str, int]) -> int:
    entry_route = step.loop.entry_route if step.loop and step.loop.end else None
    region_sets = [always.get(arc.target, 0) for arc in entry_route.arcs] if entry_route else []
    edges = success_edges(step)
    unconditional_sets = [always.get(edge.target, 0) for edge in edges if edge.is_unconditional]
    if step.route.mode == "inclusive" and unconditional_sets:
        return _intersection(region_sets) | reduce(int.__or__, unconditional_sets)
    possible_sets = [always.get(edge.target, 0) for edge in edges]
    if not unconditional_sets:
        ends_at_final = step.route.on_no_match == "end" and step.name != graph.final
        possible_sets.append(always.get(graph.final, 0) if ends_at_final else 0)
    return _intersection(region_sets) | _intersection(possible_sets)


def _intersection(sets: list[int]) -> int:
    return reduce(int.__and__, sets) if sets else 0


def concurrent_steps(graph: Graph, successors: Successors) -> frozenset[str]:
    """Return the steps that may run concurrently with others: those reachable from a fork."""
    return reachable_from(
        successors, (edge.target for step in graph.steps.values() if _is_fork(step) for edge in success_edges(step))
    )


def max_concurrency(graph: Graph, names: Iterable[str]) -> int:
    """Return the maximum number of these steps that run concurrently; a fork of three edges adds two."""
    forks = [step for name in names if _is_fork(step := graph.steps[name])]
    return 1 + sum(len(success_edges(step)) - 1 for step in forks)


def _is_fork(step: Step) -> bool:
    return step.route.mode == "inclusive" and len(success_edges(step)) > 1
