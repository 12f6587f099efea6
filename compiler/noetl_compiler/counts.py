"""How often the parts of a graph will run, as far as that is known before a run.

A step's calls are its tasks, times the pages of a task that is called again, times the items of the loops around it. A
number the graph does not tell (a collection that an earlier step makes) is taken from ``Sizes``, else as one, and said.
Every step is counted once, also where only one branch is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from noetl_compiler import templates
from noetl_compiler.graph import Graph, Json, Loop, Rule, Step, Task, Value

__all__ = ["DEFAULT_ATTEMPTS", "DEFAULT_PAGES", "Counts", "Sizes", "Work", "count", "loops_around", "rendered"]

DEFAULT_PAGES, DEFAULT_ATTEMPTS = 100, 3


@dataclass(frozen=True, slots=True)
class Sizes:
    """What only the author knows, by step: items of its loop, pages of its task, bytes of one result."""

    items: Mapping[str, int] = field(default_factory=dict[str, int])
    pages: Mapping[str, int] = field(default_factory=dict[str, int])
    result_bytes: Mapping[str, int] = field(default_factory=dict[str, int])


class _Count(NamedTuple):
    number: int
    assumed: str = ""


class Work(NamedTuple):
    """What a step does in a whole run. ``arrivals``: how often it runs, the iterations of the loops around it."""

    arrivals: int
    items: int
    calls: int
    calls_with_retries: int
    timers: int
    assumed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Counts:
    """Of a whole graph. ``scope`` is what templates can see before the run, ``around`` the loops around each step."""

    scope: Mapping[str, Json]
    around: Mapping[str, Sequence[str]]
    work: Mapping[str, Work]


def count(graph: Graph, request: Mapping[str, Json], sizes: Sizes) -> Counts:
    """The counts for a request, which is merged over the workload."""
    scope = _scope(graph, request)
    items = {step.name: _items(step.loop, sizes.items.get(step.name), scope) for step in _loops(graph)}
    around = loops_around(graph)
    work = {step.name: _work(step, around[step.name], items, scope, sizes) for step in graph.steps.values()}
    return Counts(scope, around, work)


def _loops(graph: Graph) -> Iterator[Step]:
    return (step for step in graph.steps.values() if step.loop)


def _scope(graph: Graph, request: Mapping[str, Json]) -> dict[str, Json]:
    workload = _merged(graph.workload.data or {}, request)
    return {**workload, "workload": workload, "ctx": workload, "payload": request}


def _merged(under: Json, over: Json) -> Json:
    if not isinstance(under, dict) or not isinstance(over, Mapping):
        return over
    given = cast("Mapping[str, Json]", over)
    merged: dict[str, Json] = dict(cast("dict[str, Json]", under))
    for key, value in given.items():
        merged[key] = _merged(merged.get(key), value)
    return merged


def rendered(value: Value | None, scope: Mapping[str, Any]) -> Json:
    """None when it cannot be known before the run."""
    try:
        return templates.render(value, scope) if value else None
    except templates.TemplateFailure:
        return None


def _items(loop: Loop | None, given: int | None, scope: Mapping[str, Any]) -> _Count:
    if loop is None:
        return _Count(1)
    if given is None:
        found: Json = rendered(loop.collection, scope)
        if not isinstance(found, list):
            return _Count(1, "items unknown, counted as 1")
        given = len(cast("list[Json]", found))
    limit: Json = rendered(loop.limit, scope)
    chunk: Json = rendered(loop.chunk_size, scope)
    number = min(given, limit) if isinstance(limit, int) else given
    return _Count(math.ceil(number / chunk) if isinstance(chunk, int) and chunk > 0 else number)


def _task_calls(step: Step, pages: int | None, scope: Mapping[str, Any]) -> list[_Count]:
    """The calls of each task in one iteration: its pages, times the passes of the jumps that lead back over it."""
    counts = [_pages(task, pages, scope) for task in step.tasks]
    labels = [task.label for task in step.tasks]
    for index, task in enumerate(step.tasks):
        for rule in _rules(task):
            if rule.do == "jump" and rule.to in labels[: index + 1]:
                for inside in range(labels.index(rule.to), index + 1):
                    counts[inside] = _passed(counts[inside], pages)
    return counts


def _passed(count: _Count, pages: int | None) -> _Count:
    if pages is None:
        return _Count(count.number, count.assumed or "passes unknown, counted as 1")
    return _Count(count.number * pages, count.assumed)


def _pages(task: Task, given: int | None, scope: Mapping[str, Any]) -> _Count:
    """Calls of a task that calls itself again."""
    bounds = [_bound(rule, scope, DEFAULT_PAGES) for rule in _rules(task) if rule.do == "again"]
    if not bounds:
        return _Count(1)
    return _Count(max(bounds), "all pages allowed") if given is None else _Count(given)


def _rules(task: Task) -> tuple[Rule, ...]:
    return task.policy.rules if task.policy else ()


def _bound(rule: Rule, scope: Mapping[str, Any], otherwise: int) -> int:
    found: Json = rendered(rule.attempts, scope)
    return found if isinstance(found, int) and found > 0 else otherwise


def _work(
    step: Step, around: Sequence[str], items: Mapping[str, _Count], scope: Mapping[str, Any], sizes: Sizes
) -> Work:
    arrivals = math.prod(items[name].number for name in around)
    own = items.get(step.name, _Count(1))
    times = arrivals * own.number
    counts = _task_calls(step, sizes.pages.get(step.name), scope)
    paired = list(zip(step.tasks, counts, strict=True))
    return Work(
        arrivals,
        own.number if step.loop else 0,
        calls=times * sum(count.number for count in counts),
        calls_with_retries=times * sum(count.number * _attempts(task, scope) for task, count in paired),
        timers=times * sum(count.number - 1 for task, count in paired if _waits(task)),
        assumed=tuple(dict.fromkeys(one.assumed for one in (own, *counts) if one.assumed)),
    )


def loops_around(graph: Graph) -> dict[str, list[str]]:
    """Step -> the loops it runs in, the innermost first. A region names the steps between a loop and its end, not those
    of loops inside.
    """
    loops = {name: step.name for step in _loops(graph) if step.loop for name in step.loop.region}
    return {name: list(_chain(name, loops)) for name in graph.steps}


def _chain(name: str, loops: Mapping[str, str]) -> Iterator[str]:
    while (outer := loops.get(name)) is not None:
        yield outer
        name = outer


def _attempts(task: Task, scope: Mapping[str, Any]) -> int:
    return max([1, *(_bound(rule, scope, DEFAULT_ATTEMPTS) for rule in _rules(task) if rule.do == "retry")])


def _waits(task: Task) -> bool:
    return any(rule.do == "again" and rule.delay is not None for rule in _rules(task))
