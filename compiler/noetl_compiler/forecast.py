"""What a run of a graph will cost on Temporal, foretold: events, bytes, calls, billable actions.

How it works. Each step's calls are counted: its tasks, times the pages of a task that is called again, times the
items of the loops around it. A number the graph does not tell (a collection that an earlier step makes) is taken from
``Sizes``, else as one, and the forecast says so. Every step is counted once, also where only one branch is taken: the
forecast is of the most that the given sizes can lead to, without failures; ``actions_with_retries`` adds them.

What one thing costs is measured, not guessed: tests/shell/test_forecast.py holds it against real histories. A call is
six events (scheduled, started, completed, and the workflow task that follows), a loop nine in its parent and a
workflow of its own. Workflows run at the same time share workflow tasks, so a parallel loop has fewer.

Actions are Temporal Cloud's: each workflow and child started, continued as new, each attempt of a call and the
heartbeat that carries its record, each timer, each change of search attributes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import msgspec

from noetl_compiler import templates
from noetl_compiler.graph import Graph, Json, Loop, Rule, Step, Task, Value, encode

__all__ = ["LOOP_EVENTS", "PLAYBOOK_EVENTS", "Forecast", "Sizes", "StepForecast", "forecast"]

LOOP_EVENTS = 2_000
"""History events after which a loop's workflow continues as new."""
PLAYBOOK_EVENTS = 4_096
"""History events after which Temporal suggests it to a playbook's."""
WARNING_EVENTS, LIMIT_EVENTS = 10_240, 51_200
LIMIT_BYTES = 2_000_000
STORED_BYTES = 64 * 1024
"""Larger values stand in Postgres, and history has a claim."""
MAX_IN_FLIGHT = 500

_START, _END, _CALL, _LOOP, _TIMER = 4, 1, 6, 9, 5
DEFAULT_PAGES, DEFAULT_ATTEMPTS = 100, 3
_RESULT_BYTES = 1_000
_CALL_BYTES, _EVENT_BYTES = 2_000, 120


@dataclass(frozen=True, slots=True)
class Sizes:
    """What only the author knows, by step: items of its loop, pages of its task, bytes of one result."""

    items: Mapping[str, int] = field(default_factory=dict[str, int])
    pages: Mapping[str, int] = field(default_factory=dict[str, int])
    result_bytes: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class StepForecast:
    """One step's share. ``workflow_runs`` of its loop, the first and those continued as new; 0 without a loop."""

    step: str
    items: int
    calls: int
    events: int
    bytes: int
    actions: int
    actions_with_retries: int
    workflow_runs: int = 0
    assumed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Forecast:
    """The whole run: ``workflow_runs`` of the playbook's own workflow and of all loops."""

    steps: tuple[StepForecast, ...]
    calls: int
    events: int
    bytes: int
    actions: int
    actions_with_retries: int
    workflow_runs: int
    warnings: tuple[str, ...]


class _Count(NamedTuple):
    number: int
    assumed: str = ""


def forecast(graph: Graph, request: Mapping[str, Json] | None = None, sizes: Sizes | None = None) -> Forecast:
    """The forecast for a request (merged over the workload) and what is known of sizes."""
    known = sizes or Sizes()
    scope = _scope(graph, request or {})
    items = {step.name: _items(step.loop, known.items.get(step.name), scope) for step in _loops(graph)}
    around = _around(graph)
    work = {step.name: _work(step, around[step.name], items, scope, known) for step in graph.steps.values()}
    steps = tuple(_foretold(graph, step, work, known) for step in graph.steps.values())
    outermost = [step for step in graph.steps.values() if not around[step.name]]
    inside = sum(_LOOP if step.loop else work[step.name].events for step in outermost)
    own = inside + _START + _END + 1
    runs = 1 + max(0, math.ceil(own / PLAYBOOK_EVENTS) - 1)
    framing = (_START + _END) * runs + 1
    return Forecast(
        steps,
        calls=sum(one.calls for one in steps),
        events=framing + sum(one.events for one in steps),
        bytes=len(encode(graph)) * runs + _EVENT_BYTES * framing + sum(one.bytes for one in steps),
        actions=runs + 1 + sum(one.actions for one in steps),
        actions_with_retries=runs + 1 + sum(one.actions_with_retries for one in steps),
        workflow_runs=runs + sum(one.workflow_runs for one in steps),
        warnings=tuple(_warnings(graph, steps, scope, known, own)),
    )


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


def _rendered(value: Value | None, scope: Mapping[str, Any]) -> Json:
    """None when it cannot be known before the run."""
    try:
        return templates.render(value, scope) if value else None
    except templates.TemplateFailure:
        return None


def _items(loop: Loop | None, given: int | None, scope: Mapping[str, Any]) -> _Count:
    if loop is None:
        return _Count(1)
    if given is None:
        found: Json = _rendered(loop.collection, scope)
        if not isinstance(found, list):
            return _Count(1, "items unknown, counted as 1")
        given = len(cast("list[Json]", found))
    limit: Json = _rendered(loop.limit, scope)
    chunk: Json = _rendered(loop.chunk_size, scope)
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
    found: Json = _rendered(rule.attempts, scope)
    return found if isinstance(found, int) and found > 0 else otherwise


class _Work(NamedTuple):
    """What a step does in a whole run. ``arrivals``: how often it runs, the iterations of the loops around it."""

    arrivals: int
    items: int
    calls: int
    calls_with_retries: int
    timers: int
    assumed: tuple[str, ...]

    @property
    def events(self) -> int:
        """In the workflow that runs its tasks."""
        return self.calls * _CALL + self.timers * _TIMER


def _work(
    step: Step, around: Sequence[str], items: Mapping[str, _Count], scope: Mapping[str, Any], known: Sizes
) -> _Work:
    arrivals = math.prod(items[name].number for name in around)
    own = items.get(step.name, _Count(1))
    times = arrivals * own.number
    counts = _task_calls(step, known.pages.get(step.name), scope)
    paired = list(zip(step.tasks, counts, strict=True))
    return _Work(
        arrivals,
        own.number if step.loop else 0,
        calls=times * sum(count.number for count in counts),
        calls_with_retries=times * sum(count.number * _attempts(task, scope) for task, count in paired),
        timers=times * sum(count.number - 1 for task, count in paired if _waits(task)),
        assumed=tuple(dict.fromkeys(one.assumed for one in (own, *counts) if one.assumed)),
    )


def _around(graph: Graph) -> dict[str, list[str]]:
    """Step -> the loops around it. A region names the steps between a loop and its end, not those of loops inside."""
    loops = {name: step.name for step in _loops(graph) if step.loop for name in step.loop.region}
    return {name: list(_chain(name, loops)) for name in graph.steps}


def _chain(name: str, loops: Mapping[str, str]) -> Iterator[str]:
    while (outer := loops.get(name)) is not None:
        yield outer
        name = outer


def _foretold(graph: Graph, step: Step, work: Mapping[str, _Work], known: Sizes) -> StepForecast:
    """A loop over steps has the workflows in which its region runs; the events of those steps are the steps' own."""
    mine, region = work[step.name], step.loop.region if step.loop else ()
    hosted = mine.events + sum(work[name].events + _LOOP * _loops_begun(graph, name, work) for name in region)
    begun = _loops_begun(graph, step.name, work)
    runs = begun * max(1, math.ceil(hosted // max(1, begun) / LOOP_EVENTS))
    events = mine.events + _LOOP * begun + (_START + _END) * runs
    return StepForecast(
        step.name,
        items=mine.items,
        calls=mine.calls,
        events=events,
        bytes=_bytes(step, mine.calls, events, known),
        actions=2 * mine.calls + mine.timers + begun + runs,
        actions_with_retries=2 * mine.calls_with_retries + mine.timers + begun + runs,
        workflow_runs=runs,
        assumed=mine.assumed,
    )


def _loops_begun(graph: Graph, name: str, work: Mapping[str, _Work]) -> int:
    return work[name].arrivals if graph.steps[name].loop else 0


def _attempts(task: Task, scope: Mapping[str, Any]) -> int:
    return max([1, *(_bound(rule, scope, DEFAULT_ATTEMPTS) for rule in _rules(task) if rule.do == "retry")])


def _waits(task: Task) -> bool:
    return any(rule.do == "again" and rule.delay is not None for rule in _rules(task))


def _bytes(step: Step, calls: int, events: int, known: Sizes) -> int:
    result = min(known.result_bytes.get(step.name, _RESULT_BYTES), STORED_BYTES)
    config = sum(len(msgspec.json.encode(task.config.data)) for task in step.tasks) // max(1, len(step.tasks))
    whole = len(msgspec.json.encode(step)) if step.loop else 0
    return calls * (_CALL_BYTES + config + result) + events * _EVENT_BYTES + whole


def _warnings(
    graph: Graph, steps: tuple[StepForecast, ...], scope: Mapping[str, Any], known: Sizes, own: int
) -> Iterator[str]:
    if own > PLAYBOOK_EVENTS:
        yield f"the playbook continues as new every {PLAYBOOK_EVENTS:,} events: {own:,} are expected"
    for one in steps:
        loop = graph.steps[one.step].loop
        if loop:
            yield from _loop_warnings(one, loop, scope)
        size = known.result_bytes.get(one.step, _RESULT_BYTES)
        if size > STORED_BYTES:
            yield f"{one.step}: results over 64 KB are kept in Postgres, not in history"
        if size > LIMIT_BYTES:
            yield f"{one.step}: without a Postgres for large values, a result over 2 MB fails its call"


def _loop_warnings(one: StepForecast, loop: Loop, scope: Mapping[str, Any]) -> Iterator[str]:
    if one.workflow_runs > 1:
        yield f"{one.step}: its loop continues as new {one.workflow_runs - 1:,} times, every {LOOP_EVENTS:,} events"
    asked: Json = _rendered(loop.max_in_flight, scope)
    if isinstance(asked, int) and asked > MAX_IN_FLIGHT:
        yield f"{one.step}: {asked:,} in flight are asked for, {MAX_IN_FLIGHT} are allowed: Temporal takes 2,000"
    found: Json = _rendered(loop.collection, scope)
    size = len(msgspec.json.encode(found))
    if size > LIMIT_BYTES:
        yield f"{one.step}: its collection has {size:,} bytes; over 2 MB it needs a Postgres for large values"
    if one.items > 100_000:
        yield f"{one.step}: {one.items:,} items pass through one loop: split them, or claim rows with a cursor"
