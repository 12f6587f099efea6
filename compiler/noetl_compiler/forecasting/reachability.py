"""Which steps run in every run in which nothing fails, and which may run beside others.

A run takes one way of an exclusive route and every way of an inclusive one that matches. So a step surely runs when it
is the entry, when it lies on each way that an exclusive route may take, or behind a way of an inclusive route that has
no condition. Sets of steps are kept as the bits of one number, so that thousands of them are joined at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce

from noetl_compiler.forecasting.edges import Ways, after_success, all_behind, ended_first
from noetl_compiler.graph import Graph, Step

__all__ = ["beside_others", "surely_run", "width"]


def surely_run(graph: Graph, ways: Ways) -> frozenset[str]:
    """The steps that no condition can leave out. It begins with all of them, and takes away until nothing changes."""
    order = ended_first(ways)
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
    entered = [surely.get(arc.to, 0) for arc in step.loop.enter.arcs] if step.loop and step.loop.enter else []
    onward = after_success(step)
    free = [surely.get(way.to, 0) for way in onward if way.is_free]
    if step.route.mode == "inclusive" and free:
        return _one_of(entered) | reduce(int.__or__, free)
    possible = [surely.get(way.to, 0) for way in onward]
    if not free:
        falls = step.route.on_no_match == "end" and step.name != graph.final
        possible.append(surely.get(graph.final, 0) if falls else 0)
    return _one_of(entered) | _one_of(possible)


def _one_of(sets: list[int]) -> int:
    return reduce(int.__and__, sets) if sets else 0


def beside_others(graph: Graph, ways: Ways) -> frozenset[str]:
    """The steps that may run while another does: those behind a route with several ways at once."""
    return all_behind(ways, (way.to for step in graph.steps.values() if _is_fork(step) for way in after_success(step)))


def width(graph: Graph, names: Iterable[str]) -> int:
    """How many of these steps can be under way at once, at most: a fork of three adds two."""
    forks = [step for name in names if _is_fork(step := graph.steps[name])]
    return 1 + sum(len(after_success(step)) - 1 for step in forks)


def _is_fork(step: Step) -> bool:
    return step.route.mode == "inclusive" and len(after_success(step)) > 1
