"""What a run of a graph will cost on Temporal, foretold: events, bytes, calls, billable actions.

counts.py tells how often each step runs; here each call, loop and timer is given its price. The forecast is of the most
that the given sizes can lead to, without failures; ``actions_with_retries`` adds those.

What one thing costs is measured, not guessed: tests/shell/test_forecast.py holds it against real histories. A call is
six events (scheduled, started, completed, and the workflow task that follows), a loop nine in its parent and a
workflow of its own. Workflows run at the same time share workflow tasks, so a parallel loop has fewer.

Actions are Temporal Cloud's: each workflow and child started, continued as new, each attempt of a call and the
heartbeat that carries its record, each timer, each change of search attributes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from noetl_compiler.counts import Sizes, Work, count, rendered
from noetl_compiler.graph import Graph, Json, Loop, Step, encode

__all__ = ["LOOP_EVENTS", "PLAYBOOK_EVENTS", "Forecast", "Sizes", "StepForecast", "forecast"]

LOOP_EVENTS = 2_000
"""History events after which a loop's workflow continues as new."""
PLAYBOOK_EVENTS = 4_096
"""History events after which Temporal suggests it to a playbook's."""
WARNING_EVENTS, LIMIT_EVENTS = 10_240, 51_200
"""Of one workflow run, where Temporal warns and where it ends the run."""
LIMIT_BYTES, LIMIT_PENDING = 2_000_000, 2_000
STORED_BYTES = 64 * 1024
"""Larger values stand in Postgres, and history has a claim."""
MAX_IN_FLIGHT = 500

_START, _END, _CALL, _LOOP, _TIMER = 4, 1, 6, 9, 5
_RESULT_BYTES = 1_000
_CALL_BYTES, _EVENT_BYTES = 2_000, 120


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
    largest_history: int = 0
    assumed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Forecast:
    """The whole run: ``workflow_runs`` of the playbook's own workflow and of all loops, ``largest_history`` the
    events of the longest of them.
    """

    steps: tuple[StepForecast, ...]
    calls: int
    events: int
    bytes: int
    actions: int
    actions_with_retries: int
    workflow_runs: int
    largest_history: int
    warnings: tuple[str, ...]


def forecast(graph: Graph, request: Mapping[str, Json] | None = None, sizes: Sizes | None = None) -> Forecast:
    """The forecast for a request (merged over the workload) and what is known of sizes."""
    known = sizes or Sizes()
    counts = count(graph, request or {}, known)
    steps = tuple(_foretold(graph, step, counts.work, known) for step in graph.steps.values())
    outermost = [step for step in graph.steps.values() if not counts.around[step.name]]
    own = sum(_LOOP if step.loop else _events(counts.work[step.name]) for step in outermost) + _START + _END + 1
    runs = max(1, math.ceil(own / PLAYBOOK_EVENTS))
    largest = max(_longest(own, PLAYBOOK_EVENTS, len(outermost)), *(one.largest_history for one in steps))
    framing = (_START + _END) * runs + 1
    return Forecast(
        steps,
        calls=sum(one.calls for one in steps),
        events=framing + sum(one.events for one in steps),
        bytes=len(encode(graph)) * runs + _EVENT_BYTES * framing + sum(one.bytes for one in steps),
        actions=runs + 1 + sum(one.actions for one in steps),
        actions_with_retries=runs + 1 + sum(one.actions_with_retries for one in steps),
        workflow_runs=runs + sum(one.workflow_runs for one in steps),
        largest_history=largest,
        warnings=tuple(_warnings(graph, steps, counts.scope, known, own, largest)),
    )


def _foretold(graph: Graph, step: Step, work: Mapping[str, Work], known: Sizes) -> StepForecast:
    """A loop over steps has the workflows in which its region runs; the events of those steps are the steps' own."""
    mine, region = work[step.name], step.loop.region if step.loop else ()
    hosted = _events(mine) + sum(_events(work[name]) + _LOOP * _loops_begun(graph, name, work) for name in region)
    begun = _loops_begun(graph, step.name, work)
    runs = begun * max(1, math.ceil(hosted // max(1, begun) / LOOP_EVENTS))
    events = _events(mine) + _LOOP * begun + (_START + _END) * runs
    return StepForecast(
        step.name,
        items=mine.items,
        calls=mine.calls,
        events=events,
        bytes=_bytes(step, mine.calls, events, known),
        actions=2 * mine.calls + mine.timers + begun + runs,
        actions_with_retries=2 * mine.calls_with_retries + mine.timers + begun + runs,
        workflow_runs=runs,
        largest_history=_longest(hosted // begun, LOOP_EVENTS, MAX_IN_FLIGHT) if begun else 0,
        assumed=mine.assumed,
    )


def _events(work: Work) -> int:
    """In the workflow that runs the tasks."""
    return work.calls * _CALL + work.timers * _TIMER


def _longest(events: int, renewed: int, pending: int) -> int:
    """Events of one run: when it has grown long it begins nothing more, but waits for what is pending."""
    return min(events, renewed + pending * _CALL)


def _loops_begun(graph: Graph, name: str, work: Mapping[str, Work]) -> int:
    return work[name].arrivals if graph.steps[name].loop else 0


def _bytes(step: Step, calls: int, events: int, known: Sizes) -> int:
    result = min(known.result_bytes.get(step.name, _RESULT_BYTES), STORED_BYTES)
    config = sum(len(msgspec.json.encode(task.config.data)) for task in step.tasks) // max(1, len(step.tasks))
    whole = len(msgspec.json.encode(step)) if step.loop else 0
    return calls * (_CALL_BYTES + config + result) + events * _EVENT_BYTES + whole


def _warnings(
    graph: Graph, steps: tuple[StepForecast, ...], scope: Mapping[str, Json], known: Sizes, own: int, largest: int
) -> Iterator[str]:
    if own > PLAYBOOK_EVENTS:
        yield f"the playbook continues as new every {PLAYBOOK_EVENTS:,} events: {own:,} are expected"
    if largest > WARNING_EVENTS:
        end = "ends it" if largest > LIMIT_EVENTS else f"warns from {WARNING_EVENTS:,} and ends it"
        yield f"one history may have {largest:,} events: Temporal {end} at {LIMIT_EVENTS:,}"
    if len(steps) > LIMIT_PENDING:
        yield f"{len(steps):,} steps may be pending at once: Temporal takes {LIMIT_PENDING:,}"
    for one in steps:
        loop = graph.steps[one.step].loop
        if loop:
            yield from _loop_warnings(one, loop, scope)
        size = known.result_bytes.get(one.step, _RESULT_BYTES)
        if size > STORED_BYTES:
            yield f"{one.step}: results over 64 KB are kept in Postgres, not in history"
        if size > LIMIT_BYTES:
            yield f"{one.step}: without a Postgres for large values, a result over 2 MB fails its call"


def _loop_warnings(one: StepForecast, loop: Loop, scope: Mapping[str, Json]) -> Iterator[str]:
    if one.workflow_runs > 1:
        yield f"{one.step}: its loop continues as new {one.workflow_runs - 1:,} times, every {LOOP_EVENTS:,} events"
    asked: Json = rendered(loop.max_in_flight, scope)
    if isinstance(asked, int) and asked > MAX_IN_FLIGHT:
        yield f"{one.step}: {asked:,} in flight are asked for, {MAX_IN_FLIGHT} are allowed"
    found: Json = rendered(loop.collection, scope)
    size = len(msgspec.json.encode(found))
    if size > LIMIT_BYTES:
        yield f"{one.step}: its collection has {size:,} bytes; over 2 MB it needs a Postgres for large values"
    if one.items > 100_000:
        yield f"{one.step}: {one.items:,} items pass through one loop: split them, or claim rows with a cursor"
