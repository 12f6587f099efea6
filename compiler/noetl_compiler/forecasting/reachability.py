"""The edges of a graph after success: which steps run in every run, which may run concurrently, which form cycles.

A run follows one edge of an exclusive route and every matching edge of an inclusive one. So a step always runs if it is
the entry, if it always runs after each edge that an exclusive route may follow, or if it always runs after an
unconditional edge of an inclusive route. Sets of steps are bits of an integer, so intersections are fast.
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
    "beside_others",
    "cycles",
    "edges_after_success",
    "postorder",
    "reachable_from",
    "successors_of",
    "width",
]


Successors = Mapping[str, Sequence[str]]
"""Step -> the steps that may follow it if nothing fails, including those that it enters as a loop."""


def successors_of(graph: Graph) -> Successors:
    """Return the successors of every step."""
    return {
        step.name: [name for name in dict.fromkeys(_targets(graph, step)) if name in graph.steps]
        for step in graph.steps.values()
    }


class Edge(NamedTuple):
    """An edge that may be followed after success; ``is_free`` if it has no further condition."""

    to: str
    is_free: bool


def edges_after_success(step: Step) -> list[Edge]:
    """Return the edges that may be followed after success, in order.

    In an exclusive route, edges after a free one are unreachable and left out.
    """
    moment: Moment = "loop" if step.loop else "call"
    read = [(arc.to, arc_condition(arc, moment)) for arc in step.route.arcs]
    edges = [Edge(to, not found.cause and not found.rest) for to, found in read if found.on != "error"]
    first = next((index for index, edge in enumerate(edges) if edge.is_free), len(edges))
    return edges if step.route.mode == "inclusive" or step.admit else edges[: first + 1]


def _targets(graph: Graph, step: Step) -> Iterator[str]:
    if step.loop and step.loop.enter:
        yield from (arc.to for arc in step.loop.enter.arcs)
    edges = edges_after_success(step)
    yield from (edge.to for edge in edges)
    if step.route.on_no_match == "end" and step.name != graph.final and not any(edge.is_free for edge in edges):
        yield graph.final


def reachable_from(successors: Successors, starts: Iterable[str]) -> frozenset[str]:
    """Return every step that is reachable from ``starts``, and ``starts`` itself."""
    found: set[str] = set()
    waiting = list(starts)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += successors.get(name, ())
    return frozenset(found)


def postorder(successors: Successors) -> list[str]:
    """Return all steps in postorder: each after its successors, except in cycles."""
    order: dict[str, None] = {}
    entered: set[str] = set()
    for first in successors:
        path = [(first, iter(successors[first]))] if first not in entered else []
        entered.add(first)
        while path:
            name, others = path[-1]
            following = next((other for other in others if other not in entered), None)
            if following is None:
                order[name] = None
                path.pop()
            else:
                entered.add(following)
                path.append((following, iter(successors[following])))
    return list(order)


def cycles(successors: Successors) -> list[frozenset[str]]:
    """Return the strongly connected components that have a cycle (Kosaraju's algorithm)."""
    sources: dict[str, list[str]] = {name: [] for name in successors}
    for name, targets in successors.items():
        for target in targets:
            sources[target].append(name)
    found: list[frozenset[str]] = []
    assigned: set[str] = set()
    for name in reversed(postorder(successors)):
        if name not in assigned:
            group = _gathered(name, sources, assigned)
            assigned |= group
            found += [group] if len(group) > 1 or name in successors[name] else []
    return found


def _gathered(start: str, sources: Successors, assigned: set[str]) -> frozenset[str]:
    """Return the steps that lead to a step, without those already assigned to a component."""
    group: set[str] = set()
    waiting = [start]
    while waiting:
        name = waiting.pop()
        if name not in group and name not in assigned:
            group.add(name)
            waiting += sources[name]
    return frozenset(group)


def always_run(graph: Graph, successors: Successors) -> frozenset[str]:
    """Return the steps that no condition can skip: the greatest fixed point, computed from the set of all steps."""
    order = postorder(successors)
    bits = {name: 1 << index for index, name in enumerate(order)}
    surely = dict.fromkeys(order, (1 << len(order)) - 1)
    is_settled = False
    while not is_settled:
        is_settled = True
        for name in order:
            step = graph.steps[name]
            found = _surely_after(graph, step, surely) | (0 if step.admit else bits[name])
            is_settled = is_settled and found == surely[name]
            surely[name] = found
    return frozenset(name for name in order if surely.get(graph.entry, 0) & bits[name])


def _surely_after(graph: Graph, step: Step, surely: Mapping[str, int]) -> int:
    enter = step.loop.enter if step.loop and step.loop.end else None
    entered = [surely.get(arc.to, 0) for arc in enter.arcs] if enter else []
    onward = edges_after_success(step)
    free = [surely.get(edge.to, 0) for edge in onward if edge.is_free]
    if step.route.mode == "inclusive" and free:
        return _one_of(entered) | reduce(int.__or__, free)
    possible = [surely.get(edge.to, 0) for edge in onward]
    if not free:
        falls = step.route.on_no_match == "end" and step.name != graph.final
        possible.append(surely.get(graph.final, 0) if falls else 0)
    return _one_of(entered) | _one_of(possible)


def _one_of(sets: list[int]) -> int:
    return reduce(int.__and__, sets) if sets else 0


def beside_others(graph: Graph, successors: Successors) -> frozenset[str]:
    """Return the steps that may run concurrently with others: those reachable from a fork."""
    return reachable_from(
        successors, (edge.to for step in graph.steps.values() if _is_fork(step) for edge in edges_after_success(step))
    )


def width(graph: Graph, names: Iterable[str]) -> int:
    """Return the maximum number of these steps that run concurrently; a fork of three edges adds two."""
    forks = [step for name in names if _is_fork(step := graph.steps[name])]
    return 1 + sum(len(edges_after_success(step)) - 1 for step in forks)


def _is_fork(step: Step) -> bool:
    return step.route.mode == "inclusive" and len(edges_after_success(step)) > 1
