"""The cost of calls, loops, timers and workflow runs in Temporal's events and actions, and approximate sizes in bytes.

A call costs six events (scheduled, started, completed, and the workflow task that follows); a chunk of a loop costs
nine in its parent and a workflow of its own; a frame costs one call. Concurrent calls may share workflow tasks, so each
costs at least three events. The end of a branch after which nothing starts costs one more. Each large value that is
stored or loaded for the workflow itself costs two more events and an action. When a history exceeds its limit of events
or bytes, the workflow of a playbook continues as new, and that of a chunk returns its unstarted items, which become
another chunk.

Sizes are fitted to real histories: a small result is in the history of its call and, compressed, in its record; a
larger one only with its call; one that is stored in Postgres only there, as are graphs and the steps of loops.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import msgspec

from noetl_compiler.forecasting.counts import FrameLimits, Sizes, StepWork
from noetl_compiler.forecasting.reachability import max_concurrency
from noetl_compiler.graph import Graph, Step

__all__ = [
    "LOOP_EVENTS",
    "PLAYBOOK_EVENTS",
    "RESULT_BYTES",
    "STORED_BYTES",
    "STORED_RESULTS_BYTES",
    "Amount",
    "CostModel",
    "HostWorkflow",
    "count_chunks",
]

LOOP_EVENTS = 2_000
"""History events after which a chunk of a loop starts no more items."""
PLAYBOOK_EVENTS = 4_096
"""History events after which Temporal suggests continue-as-new to the workflow of a playbook."""
HISTORY_BYTES = 4 * 1024 * 1024
"""Bytes of history after which Temporal suggests continue-as-new to any workflow."""
CHUNK_ITEMS, MAX_CHUNKS, CHUNKS_AT_ONCE = 400, 500, 2
"""Items per chunk, initial chunks per loop, and concurrent chunks of a parallel loop."""
STORED_BYTES = 64 * 1024
"""Larger values are stored in Postgres, and history has a reference."""
STORED_RESULTS_BYTES = 4_096
"""If a loop has several chunks, the results of one are stored in Postgres from this size."""
RESULT_BYTES = 1_000
"""Size of a result if the author gives none."""

_RUN_EVENTS, _CALL_EVENTS, _CHUNK_EVENTS = 5, 6, 9
_SHARED_EVENTS = 3
"""Events of a call or a chunk that shares workflow tasks with others."""
_DELAY_EVENTS, _TIMEOUT_EVENTS = 5, 2
"""Events of a timer that is awaited, and of one that only limits the time."""
_LOCAL_ACTIVITY_EVENTS, _STATUS_EVENTS = 2, 1
"""Events of a value that is stored or loaded, and of the final status."""
_RUN_BYTES, _CALL_BYTES, _EVENT_BYTES, _REFERENCE_BYTES = 1_000, 700, 120, 500
_RESULT_COPIES = 3
"""Copies in history of the collected results of a loop."""


class Amount(msgspec.Struct, frozen=True):
    """A cost. ``children``: child workflows for the chunks of loops; ``workflow_runs``: all runs of workflows, that of
    the playbook and those after continue-as-new included.
    """

    calls: int = 0
    children: int = 0
    workflow_runs: int = 0
    events: int = 0
    actions: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(
            self.calls + other.calls,
            self.children + other.children,
            self.workflow_runs + other.workflow_runs,
            self.events + other.events,
            self.actions + other.actions,
        )


class HostWorkflow(msgspec.Struct, frozen=True):
    """The workflow that runs the steps of a playbook, or all chunks of a loop together.

    ``max_events``: the number of events after which it continues as new. ``calls``: calls per item.
    """

    events: int
    bytes: int
    max_events: int
    concurrent_items: int
    chunk_count: int = 1
    calls: int = 1

    @property
    def runs(self) -> int:
        """The number of workflow runs, consecutive and concurrent."""
        runs_per_chunk = max(self.events / self.max_events, self.bytes / HISTORY_BYTES) / self.chunk_count
        return self.chunk_count * max(1, math.ceil(runs_per_chunk))

    @property
    def longest_history(self) -> int:
        """Events of the longest run: beyond its limit it starts no more items, but completes those in flight."""
        return (
            min(
                math.ceil(self.events / self.chunk_count),
                self.max_events + self.concurrent_items * self.calls * _CALL_EVENTS,
            )
            + _RUN_EVENTS
        )


class CostModel(msgspec.Struct, frozen=True):
    """The costs of one graph, for the minimal or maximal work of its steps."""

    graph: Graph
    work: Mapping[str, StepWork]
    in_flight: Mapping[str, int]
    frame_limits: Mapping[str, FrameLimits]
    sizes: Sizes

    def playbook_workflow(self, outermost: Iterable[str]) -> HostWorkflow:
        """Return the workflow of the playbook, which runs the steps outside of loops."""
        names = list(outermost)
        events = sum(map(self.host_events, names)) + _STATUS_EVENTS
        size = sum(map(self._host_bytes, names)) + _REFERENCE_BYTES
        return HostWorkflow(events, size, PLAYBOOK_EVENTS, max_concurrency(self.graph, names))

    def loop_workflow(self, step: Step) -> HostWorkflow:
        """Return the chunks of one execution of a loop, which run its tasks or the steps of its region.

        A framed loop has no chunks.
        """
        if step.name in self.frame_limits:
            return HostWorkflow(0, 0, LOOP_EVENTS, 0)
        loops, region = max(1, self.work[step.name].loops), step.loop.region if step.loop else ()
        chunk_count = self._count_chunks(step.name)
        stores = loops * chunk_count if self._stores_results(step.name) else 0
        events = self._task_events(step.name) + _LOCAL_ACTIVITY_EVENTS * stores + sum(map(self.host_events, region))
        size = self._call_bytes(step.name) + sum(map(self._host_bytes, region))
        in_flight = self.in_flight[step.name]
        calls = len(step.tasks) + sum(len(self.graph.steps[name].tasks) for name in region)
        concurrent_items = in_flight * max_concurrency(self.graph, region)
        return HostWorkflow(events // loops, size // loops, LOOP_EVENTS, concurrent_items, chunk_count, max(1, calls))

    def cost_without_steps(self, runs: int) -> Amount:
        """Return the cost of a run without its steps."""
        limit = 1 if self.graph.timeout else 0
        return Amount(
            workflow_runs=runs,
            events=_RUN_EVENTS * runs + _STATUS_EVENTS + _TIMEOUT_EVENTS * limit,
            actions=runs + 1 + limit,
        )

    def step_cost(self, step: Step) -> Amount:
        """Return the cost of a step, including the workflows of its loop."""
        work = self.work[step.name]
        if step.name in self.frame_limits:
            frames = self._count_frames(step.name)
            loads = self._count_loads(step.name)
            return Amount(work.calls, events=self.host_events(step.name), actions=2 * frames + work.timeouts + loads)
        runs = work.loops * self.loop_workflow(step).runs if work.loops else 0
        stored_values = self._count_loads(step.name) + self._count_item_stores(step.name)
        stored_values += runs if self._stores_results(step.name) else 0
        tasks = self._task_events(step.name) + _TIMEOUT_EVENTS * work.timeouts
        return Amount(
            work.calls,
            runs,
            runs,
            events=tasks + self._loop_events(step.name) + _RUN_EVENTS * runs + _LOCAL_ACTIVITY_EVENTS * stored_values,
            actions=2 * work.calls + work.delays + work.timeouts + 2 * runs + stored_values,
        )

    def step_bytes(self, step: Step) -> int:
        """Return the bytes of a step in all histories."""
        call_bytes = 0 if step.name in self.frame_limits else self._call_bytes(step.name)
        return call_bytes + self._loop_bytes(step)

    def bytes_without_steps(self, runs: int) -> int:
        """Return the bytes of a run without its steps."""
        return _RUN_BYTES + runs * (_REFERENCE_BYTES + _RUN_EVENTS * _EVENT_BYTES)

    def host_events(self, name: str) -> int:
        """Return a step's events in the workflow that hosts it. The tasks of a loop have workflows of their own."""
        events = self._loop_events(name) if name in self.in_flight else self._task_events(name)
        return (
            events
            + _TIMEOUT_EVENTS * self.work[name].timeouts
            + _LOCAL_ACTIVITY_EVENTS * (self._count_loads(name) + self._count_item_stores(name))
        )

    def _host_bytes(self, name: str) -> int:
        return self._loop_bytes(self.graph.steps[name]) if name in self.in_flight else self._call_bytes(name)

    def _task_events(self, name: str) -> int:
        work = self.work[name]
        calls = work.calls * (_SHARED_EVENTS if work.is_shared else _CALL_EVENTS)
        return calls + _DELAY_EVENTS * work.delays + work.branch_ends

    def _count_frames(self, name: str) -> int:
        """Return the number of activities of a framed loop."""
        work, frame_limits = self.work[name], self.frame_limits[name]
        items = work.items // max(1, work.loops)
        return work.loops * math.ceil(
            items / max(1, min(frame_limits.max_items, math.ceil(items / frame_limits.concurrent_frames)))
        )

    def _loop_events(self, name: str) -> int:
        """Return the events in the parent of the chunks; two concurrent chunks may share workflow tasks."""
        work = self.work[name]
        if not work.loops:
            return 0
        if name in self.frame_limits:
            frames = self._count_frames(name)
            return frames * (_SHARED_EVENTS if work.is_loop_shared or frames > 1 else _CALL_EVENTS)
        runs = self.loop_workflow(self.graph.steps[name]).runs
        return (
            work.loops
            * runs
            * (_SHARED_EVENTS if work.is_loop_shared or (runs > 1 and work.is_shared) else _CHUNK_EVENTS)
        )

    def _is_chunked(self, name: str) -> bool:
        """Whether the step is a loop that runs in chunks, not in frames."""
        return name in self.in_flight and name not in self.frame_limits

    def _count_item_stores(self, name: str) -> int:
        """Return how often the items of a loop are stored, which happens before its first chunk starts."""
        return self.work[name].loops if self._is_chunked(name) and self._count_chunks(name) > 1 else 0

    def _stores_results(self, name: str) -> bool:
        """Whether each chunk of a loop stores its results."""
        if not self._is_chunked(name) or not self.work[name].loops:
            return False
        chunk_count = self._count_chunks(name)
        return self._loop_results_bytes(name) // chunk_count >= (
            STORED_RESULTS_BYTES if chunk_count > 1 else STORED_BYTES
        )

    def _count_loads(self, name: str) -> int:
        """Return how often the workflow loads the step's stored result."""
        size = self._loop_results_bytes(name) if name in self.in_flight else self._result_size(name)
        is_stored = size >= STORED_BYTES or self._stores_results(name)
        return self.work[name].reads if is_stored else 0

    def _count_chunks(self, name: str) -> int:
        work = self.work[name]
        return count_chunks(work.items // max(1, work.loops), self.in_flight[name])

    def _loop_results_bytes(self, name: str) -> int:
        """Return the bytes of the results of one execution of a loop."""
        work = self.work[name]
        return work.items // max(1, work.loops) * self._result_size(name)

    def _result_size(self, name: str) -> int:
        return self.sizes.result_bytes.get(name, RESULT_BYTES)

    def _call_bytes(self, name: str) -> int:
        tasks, work = self.graph.steps[name].tasks, self.work[name]
        config = sum(len(msgspec.json.encode(task.config.data)) for task in tasks) // max(1, len(tasks))
        bytes_per_call = _CALL_BYTES + _history_bytes(config) + _history_bytes(self._result_size(name))
        return work.calls * bytes_per_call + self._task_events(name) * _EVENT_BYTES

    def _loop_bytes(self, step: Step) -> int:
        """Return the bytes of inputs and results of chunks, in the histories of both parent and child."""
        work = self.work[step.name]
        if not work.loops:
            return 0
        return work.loops * (
            2 * _REFERENCE_BYTES
            + _RESULT_COPIES * _history_bytes(self._loop_results_bytes(step.name))
            + (_CHUNK_EVENTS + _RUN_EVENTS) * _EVENT_BYTES
        )


def count_chunks(items: int, in_flight: int) -> int:
    """Return the number of chunks of a loop, at least one."""
    count = max(1, math.ceil(items / max(CHUNK_ITEMS, math.ceil(items / MAX_CHUNKS))))
    concurrent_chunks = min(in_flight, CHUNKS_AT_ONCE) if count > 1 else 1
    return math.ceil(count / concurrent_chunks) * concurrent_chunks


def _history_bytes(size: int) -> int:
    """Return the bytes that a value takes in history."""
    return size if size < STORED_BYTES else _REFERENCE_BYTES
