"""The ways of a graph after success: what follows what, and which steps lead back to themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from noetl_compiler.conditions import Moment, read_condition
from noetl_compiler.graph import Graph, Step

__all__ = ["Way", "Ways", "after_success", "all_behind", "circles", "ended_first", "ways_of"]

Ways = Mapping[str, Sequence[str]]
"""Step -> the steps it may lead to when nothing fails, those it enters as a loop among them."""


def ways_of(graph: Graph) -> Ways:
    """Of every step."""
    return {
        step.name: [name for name in dict.fromkeys(_targets(graph, step)) if name in graph.steps]
        for step in graph.steps.values()
    }


class Way(NamedTuple):
    """A way on after success; ``is_free`` when it asks for nothing else."""

    to: str
    is_free: bool


def after_success(step: Step) -> list[Way]:
    """The ways that a step may take when it has not failed, in order. A free one hides those after it, unless all are
    taken that match.
    """
    moment: Moment = "loop" if step.loop else "call"
    read = [(arc.to, read_condition(arc.when, arc.on, moment)) for arc in step.route.arcs]
    ways = [Way(to, not found.cause and not found.rest) for to, found in read if found.on != "error"]
    first = next((index for index, way in enumerate(ways) if way.is_free), len(ways))
    return ways if step.route.mode == "inclusive" or step.admit else ways[: first + 1]


def _targets(graph: Graph, step: Step) -> Iterator[str]:
    if step.loop and step.loop.enter:
        yield from (arc.to for arc in step.loop.enter.arcs)
    ways = after_success(step)
    yield from (way.to for way in ways)
    if step.route.on_no_match == "end" and step.name != graph.final and not any(way.is_free for way in ways):
        yield graph.final


def all_behind(ways: Ways, starts: Iterable[str]) -> frozenset[str]:
    """Every step that can be reached from these, with themselves."""
    found: set[str] = set()
    waiting = list(starts)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += ways.get(name, ())
    return frozenset(found)


def ended_first(ways: Ways) -> list[str]:
    """All steps, each after those it leads to, as far as it is not on a circle with them."""
    order: dict[str, None] = {}
    entered: set[str] = set()
    for first in ways:
        path = [(first, iter(ways[first]))] if first not in entered else []
        entered.add(first)
        while path:
            name, others = path[-1]
            following = next((other for other in others if other not in entered), None)
            if following is None:
                order[name] = None
                path.pop()
            else:
                entered.add(following)
                path.append((following, iter(ways[following])))
    return list(order)


def circles(ways: Ways) -> list[frozenset[str]]:
    """The steps that lead back to each other, one set a circle (Kosaraju's algorithm)."""
    sources: dict[str, list[str]] = {name: [] for name in ways}
    for name, targets in ways.items():
        for target in targets:
            sources[target].append(name)
    found: list[frozenset[str]] = []
    assigned: set[str] = set()
    for name in reversed(ended_first(ways)):
        if name not in assigned:
            group = _gathered(name, sources, assigned)
            assigned |= group
            found += [group] if len(group) > 1 or name in ways[name] else []
    return found


def _gathered(start: str, sources: Ways, assigned: set[str]) -> frozenset[str]:
    """What leads to a step, without what belongs to another circle already."""
    group: set[str] = set()
    waiting = [start]
    while waiting:
        name = waiting.pop()
        if name not in group and name not in assigned:
            group.add(name)
            waiting += sources[name]
    return frozenset(group)
