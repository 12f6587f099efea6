"""Estimate how often the parts of a graph run, before a run.

The calls of a step are the sum of the calls of its tasks, times the items of the enclosing loops, times the passes of
its cycle. A number that the graph does not determine, such as the length of a collection that a step computes, is taken
from ``Sizes``, or else guessed and reported as an assumption.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from noetl_compiler.forecasting.call_counts import count_calls, count_delays, max_attempts, repeats_itself
from noetl_compiler.forecasting.reachability import (
    Successors,
    always_run,
    concurrent_steps,
    cycles,
    max_concurrency,
    successors_of,
)
from noetl_compiler.forecasting.static_scope import Count, count_items, known_names, try_render
from noetl_compiler.graph import Frame, Graph, Json, Step
from noetl_compiler.language import defaults

__all__ = ["MAX_IN_FLIGHT", "Counts", "FrameLimits", "Sizes", "StepWork", "count_parts", "loops_around"]

MAX_IN_FLIGHT = 500
_ONCE = Count(1, 1)
_CYCLE_ASSUMPTION = "in a cycle, counted once (--pages)"


class Sizes(msgspec.Struct, frozen=True):
    """Sizes given by the author, by step: items of its loop, pages of its task, bytes of one result."""

    items: Mapping[str, int] = msgspec.field(default_factory=dict[str, int])
    pages: Mapping[str, int] = msgspec.field(default_factory=dict[str, int])
    result_bytes: Mapping[str, int] = msgspec.field(default_factory=dict[str, int])


class StepWork(NamedTuple):
    """The minimal or maximal work of a step in a whole run.

    ``arrivals``: how often it runs; ``loops`` and ``items``: the loops it begins, and their iterations in all.
    ``delays`` are awaited timers, ``timeouts`` the timers of its timeout. ``reads``: how many times the workflow loads
    the step's result. ``is_shared``: its calls may share workflow tasks with others; ``is_loop_shared``: its loops may.
    ``branch_ends``: the ends of branches after which nothing starts, because other branches still run.
    """

    arrivals: int
    loops: int
    items: int
    calls: int
    calls_with_retries: int
    delays: int
    timeouts: int
    reads: int
    is_shared: bool = False
    is_loop_shared: bool = False
    branch_ends: int = 0


class FrameLimits(NamedTuple):
    """The maximum number of items of a frame, and of frames that run concurrently."""

    max_items: int
    concurrent_frames: int


class Counts(msgspec.Struct, frozen=True):
    """The counts of a graph, by step.

    ``names``: the scope of templates before the run. ``enclosing_loops``: the loops around each step. ``in_flight``:
    the concurrent iterations of each loop. ``frame_limits``: those of each framed loop.
    """

    names: Mapping[str, Json]
    enclosing_loops: Mapping[str, Sequence[str]]
    in_flight: Mapping[str, int]
    frame_limits: Mapping[str, FrameLimits]
    lower: Mapping[str, StepWork]
    upper: Mapping[str, StepWork]
    assumptions: Mapping[str, tuple[str, ...]]


class _StepCounts(msgspec.Struct, frozen=True):
    """The counts of one step: how often it runs, the iterations of its loop, the calls of each task in one iteration,
    and the calls by which its loop claims and acknowledges rows.
    """

    step: Step
    arrivals: Count
    items: Count
    tasks: Sequence[Count]
    claims: Count

    def assumptions(self) -> tuple[str, ...]:
        assumptions = [
            step_count.assumption for step_count in (self.arrivals, self.items, *self.tasks) if step_count.assumption
        ]
        skippable = ["may not run"] if not self.arrivals.lower and self.arrivals.upper else []
        return tuple(dict.fromkeys([*skippable, *assumptions]))

    def work(self, bound: Literal["lower", "upper"], delays: int, attempts: Sequence[int]) -> StepWork:
        arrivals, items, claims = getattr(self.arrivals, bound), getattr(self.items, bound), getattr(self.claims, bound)
        calls = [getattr(task, bound) for task in self.tasks]
        return StepWork(
            arrivals,
            loops=arrivals if self.step.loop and items else 0,
            items=arrivals * items if self.step.loop else 0,
            calls=arrivals * (items * sum(calls) + claims),
            calls_with_retries=arrivals
            * (
                items * sum(count * attempt_limit for count, attempt_limit in zip(calls, attempts, strict=True))
                + claims
            ),
            delays=arrivals * items * delays,
            timeouts=arrivals if self.step.timeout and self.step.timeout.total else 0,
            reads=arrivals if bound == "upper" else 0,
        )


def count_parts(graph: Graph, request: Mapping[str, Json], sizes: Sizes) -> Counts:
    """Count how often the parts of a graph run with a request, which is merged over the workload."""
    names, enclosing_loops, successors = known_names(graph.workload, request), loops_around(graph), successors_of(graph)
    in_flight = {loop_step.name: _max_in_flight(loop_step, names) for loop_step in _loops(graph)}
    concurrent = concurrent_steps(graph, successors)
    lower: dict[str, StepWork] = {}
    upper: dict[str, StepWork] = {}
    assumptions: dict[str, tuple[str, ...]] = {}
    for step_counts in _count_steps(graph, names, enclosing_loops, successors, sizes, in_flight):
        step = step_counts.step
        delays = count_delays(step, sizes.pages.get(step.name))
        attempts = [max_attempts(task, names) for task in step.tasks]
        is_loop_shared = step.name in concurrent or any(in_flight[loop] > 1 for loop in enclosing_loops[step.name])
        is_shared = is_loop_shared or in_flight.get(step.name, 1) > 1
        lower[step.name] = step_counts.work("lower", delays, attempts)._replace(
            is_shared=is_shared, is_loop_shared=is_loop_shared
        )
        upper[step.name] = _with_branch_ends(graph, step, step_counts.work("upper", delays, attempts))
        assumptions[step.name] = step_counts.assumptions()
    frame_limits = {
        loop_step.name: _frame_limits(loop_step.loop.frame, in_flight[loop_step.name], names)
        for loop_step in _loops(graph)
        if loop_step.loop and loop_step.loop.frame
    }
    return Counts(names, enclosing_loops, in_flight, frame_limits, lower, upper, assumptions)


def _with_branch_ends(graph: Graph, step: Step, work: StepWork) -> StepWork:
    return work._replace(branch_ends=work.arrivals * (max_concurrency(graph, [step.name]) - 1))


def _count_steps(
    graph: Graph,
    names: Mapping[str, Json],
    enclosing_loops: Mapping[str, Sequence[str]],
    successors: Successors,
    sizes: Sizes,
    in_flight: Mapping[str, int],
) -> Iterator[_StepCounts]:
    items = {
        loop_step.name: count_items(loop_step.loop, sizes.items.get(loop_step.name), names)
        for loop_step in _loops(graph)
        if loop_step.loop
    }
    passes = {name: _count_passes(graph, cycle, sizes) for cycle in cycles(successors) for name in cycle}
    always = always_run(graph, successors)
    for name, step in graph.steps.items():
        arrivals = _multiply([passes.get(name, _ONCE), *(items[loop] for loop in enclosing_loops[name])])
        arrivals = arrivals if name in always else arrivals._replace(lower=0)
        iterations = items.get(name, _ONCE)
        claims = _count_claims(step, iterations, in_flight.get(name, 1), names)
        yield _StepCounts(step, arrivals, iterations, count_calls(step, sizes.pages.get(name), names), claims)


def _count_claims(step: Step, rows: Count, claimers: int, names: Mapping[str, Json]) -> Count:
    """Count the calls of a cursor: the claims, of which the last finds no row for each claimer, and one acknowledgement
    per row. Renewals are not counted, as they are part of the calls that they accompany.
    """
    cursor = step.loop.cursor if step.loop is not None else None
    if cursor is None:
        return Count(0, 0)
    max_rows: Json = try_render(cursor.max_rows, names)
    batch_size = max(1, max_rows if isinstance(max_rows, int) else defaults.CLAIM["max_rows"])
    acks = 1 if cursor.ack is not None else 0
    return Count(rows.upper * (1 + acks) + claimers, math.ceil(rows.lower / batch_size) + rows.lower * acks)


def _count_passes(graph: Graph, cycle: frozenset[str], sizes: Sizes) -> Count:
    """Return the passes of a cycle. The pages of a step that repeats its own tasks do not count as passes."""
    pages_of_steps = [
        pages for name, pages in sizes.pages.items() if name in cycle and not repeats_itself(graph.steps[name])
    ]
    return Count(max(pages_of_steps), 1) if pages_of_steps else Count(1, 1, _CYCLE_ASSUMPTION)


def _multiply(counts: Sequence[Count]) -> Count:
    """Multiply counts. Only the first one's assumption is kept; those of loops are reported at the loop."""
    upper, lower = math.prod(count.upper for count in counts), math.prod(count.lower for count in counts)
    return Count(upper, lower, counts[0].assumption)


def _max_in_flight(step: Step, names: Mapping[str, Json]) -> int:
    if step.loop is None or not step.loop.is_parallel:
        return 1
    value: Json = try_render(step.loop.max_in_flight, names)
    return min(MAX_IN_FLIGHT, max(1, value if isinstance(value, int) else defaults.IN_FLIGHT))


def _frame_limits(frame: Frame, in_flight: int, names: Mapping[str, Json]) -> FrameLimits:
    max_items, concurrency = _frame_setting(frame, "max_rows", names), _frame_setting(frame, "row_concurrency", names)
    return FrameLimits(max_items, max(1, in_flight // concurrency))


def _frame_setting(frame: Frame, name: str, names: Mapping[str, Json]) -> int:
    value: Json = try_render(getattr(frame, name), names)
    return max(1, value if isinstance(value, int) else defaults.FRAME[name])


def _loops(graph: Graph) -> Iterator[Step]:
    return (step for step in graph.steps.values() if step.loop)


def loops_around(graph: Graph) -> dict[str, list[str]]:
    """Return step -> its enclosing loops, innermost first.

    A region lists the steps between a loop and its end, without those of inner loops.
    """
    loops = {name: step.name for step in _loops(graph) if step.loop for name in step.loop.region}
    return {name: list(_enclosing_loops(name, loops)) for name in graph.steps}


def _enclosing_loops(name: str, loops: Mapping[str, str]) -> Iterator[str]:
    while (outer := loops.get(name)) is not None:
        yield outer
        name = outer
