"""Estimate how often the parts of a graph run, before a run.

A step's calls are its tasks, times the pages of a task that is called again, times the items of the loops around it,
times the passes of its cycle. A number that the graph does not determine (such as the length of a collection that a
step computes) is taken from ``Sizes``, or else guessed and reported as an assumption.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from noetl_compiler.forecasting.call_counts import attempts_of, calls_of, delays_of, repeats_itself
from noetl_compiler.forecasting.reachability import Successors, always_run, beside_others, cycles, successors_of
from noetl_compiler.forecasting.static_scope import Count, items_of, known_names, rendered
from noetl_compiler.graph import Frame, Graph, Json, Step
from noetl_compiler.language import defaults

__all__ = ["MAX_IN_FLIGHT", "Counts", "Rows", "Sizes", "StepWork", "count", "loops_around"]

MAX_IN_FLIGHT = 500
_ONCE = Count(1, 1)
_CYCLE = "in a cycle, counted once (--pages)"


class Sizes(msgspec.Struct, frozen=True):
    """Sizes given by the author, by step: items of its loop, pages of its task, bytes of one result."""

    items: Mapping[str, int] = msgspec.field(default_factory=dict[str, int])
    pages: Mapping[str, int] = msgspec.field(default_factory=dict[str, int])
    result_bytes: Mapping[str, int] = msgspec.field(default_factory=dict[str, int])


class StepWork(NamedTuple):
    """The minimal or maximal work of a step in a whole run.

    ``arrivals``: how often it runs; ``loops`` and ``items``: the loops it begins, and their iterations in all.
    ``delays`` are the timers that are waited for, ``limits`` those of its time limit. ``reads``: how many times the
    workflow loads the step's result. ``is_shared`` and ``is_loop_shared``: its calls, its loops may share workflow
    tasks with others.
    """

    arrivals: int
    loops: int
    items: int
    calls: int
    calls_with_retries: int
    delays: int
    limits: int
    reads: int
    is_shared: bool = False
    is_loop_shared: bool = False


class Rows(NamedTuple):
    """The maximum number of items of a frame, and how many of them run concurrently."""

    most: int
    at_once: int


class Counts(msgspec.Struct, frozen=True):
    """The counts of a graph, by step.

    ``names``: the scope of templates before the run. ``around``: the enclosing loops of each step. ``in_flight``: the
    concurrent iterations of each loop. ``rows``: the frames of each framed loop.
    """

    names: Mapping[str, Json]
    around: Mapping[str, Sequence[str]]
    in_flight: Mapping[str, int]
    rows: Mapping[str, Rows]
    least: Mapping[str, StepWork]
    most: Mapping[str, StepWork]
    assumed: Mapping[str, tuple[str, ...]]


class _Times(msgspec.Struct, frozen=True):
    """How often a step runs, the iterations of its loop, the calls of each task in one iteration, and the calls with
    which its loop claims and acknowledges rows.
    """

    step: Step
    arrivals: Count
    items: Count
    tasks: Sequence[Count]
    claims: Count

    def assumed(self) -> tuple[str, ...]:
        found = [one.assumed for one in (self.arrivals, self.items, *self.tasks) if one.assumed]
        may_not = ["may not run"] if not self.arrivals.least and self.arrivals.most else []
        return tuple(dict.fromkeys([*may_not, *found]))

    def work(self, end: Literal["least", "most"], delays: int, attempts: Sequence[int]) -> StepWork:
        arrivals, items, claims = getattr(self.arrivals, end), getattr(self.items, end), getattr(self.claims, end)
        calls = [getattr(task, end) for task in self.tasks]
        return StepWork(
            arrivals,
            loops=arrivals if self.step.loop and items else 0,
            items=arrivals * items if self.step.loop else 0,
            calls=arrivals * (items * sum(calls) + claims),
            calls_with_retries=arrivals
            * (items * sum(one * most for one, most in zip(calls, attempts, strict=True)) + claims),
            delays=arrivals * items * delays,
            limits=arrivals if self.step.timeout and self.step.timeout.total else 0,
            reads=arrivals if end == "most" else 0,
        )


def count(graph: Graph, request: Mapping[str, Json], sizes: Sizes) -> Counts:
    """Count the parts of a graph for a request, which is merged over the workload."""
    names, around, successors = known_names(graph.workload, request), loops_around(graph), successors_of(graph)
    in_flight = {one.name: _in_flight(one, names) for one in _loops(graph)}
    beside = beside_others(graph, successors)
    least: dict[str, StepWork] = {}
    most: dict[str, StepWork] = {}
    assumed: dict[str, tuple[str, ...]] = {}
    for times in _times(graph, names, around, successors, sizes, in_flight):
        step = times.step
        delays = delays_of(step, sizes.pages.get(step.name))
        attempts = [attempts_of(task, names) for task in step.tasks]
        is_loop_shared = step.name in beside or any(in_flight[loop] > 1 for loop in around[step.name])
        is_shared = is_loop_shared or in_flight.get(step.name, 1) > 1
        least[step.name] = times.work("least", delays, attempts)._replace(
            is_shared=is_shared, is_loop_shared=is_loop_shared
        )
        most[step.name] = times.work("most", delays, attempts)
        assumed[step.name] = times.assumed()
    rows = {
        one.name: _rows(one.loop.frame, in_flight[one.name], names)
        for one in _loops(graph)
        if one.loop and one.loop.frame
    }
    return Counts(names, around, in_flight, rows, least, most, assumed)


def _times(
    graph: Graph,
    names: Mapping[str, Json],
    around: Mapping[str, Sequence[str]],
    successors: Successors,
    sizes: Sizes,
    in_flight: Mapping[str, int],
) -> Iterator[_Times]:
    items = {one.name: items_of(one.loop, sizes.items.get(one.name), names) for one in _loops(graph) if one.loop}
    passes = {name: _passes(graph, cycle, sizes) for cycle in cycles(successors) for name in cycle}
    always = always_run(graph, successors)
    for name, step in graph.steps.items():
        arrivals = _product([passes.get(name, _ONCE), *(items[loop] for loop in around[name])])
        arrivals = arrivals if name in always else arrivals._replace(least=0)
        found = items.get(name, _ONCE)
        claims = _claims(step, found, in_flight.get(name, 1), names)
        yield _Times(step, arrivals, found, calls_of(step, sizes.pages.get(name), names), claims)


def _claims(step: Step, rows: Count, claimers: int, names: Mapping[str, Json]) -> Count:
    """Count the calls of a loop over a cursor, besides its tasks: the claims, the last of which find nothing, and one
    acknowledgement of each row. Renewals are part of the calls that they accompany.
    """
    cursor = step.loop.cursor if step.loop is not None else None
    if cursor is None:
        return Count(0, 0)
    asked: Json = rendered(cursor.max_rows, names)
    at_once = max(1, asked if isinstance(asked, int) else defaults.CLAIM["max_rows"])
    acks = 1 if cursor.ack is not None else 0
    return Count(rows.most * (1 + acks) + claimers, math.ceil(rows.least / at_once) + rows.least * acks)


def _passes(graph: Graph, cycle: frozenset[str], sizes: Sizes) -> Count:
    """Return the passes of a cycle. The pages of a step that repeats its own tasks do not count as passes."""
    given = [pages for name, pages in sizes.pages.items() if name in cycle and not repeats_itself(graph.steps[name])]
    return Count(max(given), 1) if given else Count(1, 1, _CYCLE)


def _product(counts: Sequence[Count]) -> Count:
    """Multiply counts. Only the first one's assumption is kept; those of loops are reported at the loop."""
    most, least = math.prod(one.most for one in counts), math.prod(one.least for one in counts)
    return Count(most, least, counts[0].assumed)


def _in_flight(step: Step, names: Mapping[str, Json]) -> int:
    if step.loop is None or not step.loop.is_parallel:
        return 1
    value: Json = rendered(step.loop.max_in_flight, names)
    return min(MAX_IN_FLIGHT, max(1, value if isinstance(value, int) else defaults.IN_FLIGHT))


def _rows(frame: Frame, in_flight: int, names: Mapping[str, Json]) -> Rows:
    most, each = _frame_limit(frame, "max_rows", names), _frame_limit(frame, "row_concurrency", names)
    return Rows(most, max(1, in_flight // each))


def _frame_limit(frame: Frame, name: str, names: Mapping[str, Json]) -> int:
    value: Json = rendered(getattr(frame, name), names)
    return max(1, value if isinstance(value, int) else defaults.FRAME[name])


def _loops(graph: Graph) -> Iterator[Step]:
    return (step for step in graph.steps.values() if step.loop)


def loops_around(graph: Graph) -> dict[str, list[str]]:
    """Return step -> its enclosing loops, innermost first.

    A region lists the steps between a loop and its end, without those of inner loops.
    """
    loops = {name: step.name for step in _loops(graph) if step.loop for name in step.loop.region}
    return {name: list(_chain(name, loops)) for name in graph.steps}


def _chain(name: str, loops: Mapping[str, str]) -> Iterator[str]:
    while (outer := loops.get(name)) is not None:
        yield outer
        name = outer
