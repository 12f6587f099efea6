"""What calls, loops, timers and workflow runs cost in Temporal's events and actions, and about how many bytes.

A call is six events (scheduled, started, completed, and the workflow task that follows), a chunk of a loop nine in its
parent and a workflow of its own, a frame one call. What goes on at the same time may share a workflow task, so it costs
three events at least. Where large values are stored or loaded for a workflow itself, that is one more event and
action each. When its history has grown long, in events or in bytes, a playbook's workflow continues as new,
and a chunk's gives back the items that it has not begun, which become another chunk.

Sizes are fitted to real histories: a small result stands in the history of its call and, compressed, in records of
what happened, a larger one with its call alone, and one that is kept in Postgres nowhere. A graph and a loop's step
are kept there too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import msgspec

from noetl_compiler.forecasting.counts import Rows, Sizes, Work
from noetl_compiler.forecasting.reachability import width
from noetl_compiler.graph import Graph, Step

__all__ = [
    "LOOP_EVENTS",
    "PLAYBOOK_EVENTS",
    "RESULT_BYTES",
    "STORED_BYTES",
    "STORED_RESULTS_BYTES",
    "Amount",
    "Host",
    "Prices",
    "chunks",
]

LOOP_EVENTS = 2_000
"""History events after which a chunk of a loop begins no further item."""
PLAYBOOK_EVENTS = 4_096
"""History events after which Temporal suggests it to a playbook's."""
HISTORY_BYTES = 4 * 1024 * 1024
"""Bytes of a history after which Temporal suggests it to any workflow."""
CHUNK_ITEMS, MAX_CHUNKS, CHUNKS_AT_ONCE = 400, 500, 2
"""Items of a chunk, chunks of a loop before any gives items back, and how many of a parallel loop run at once."""
STORED_BYTES = 64 * 1024
"""Larger values stand in Postgres, and history has a claim."""
STORED_RESULTS_BYTES = 4_096
"""The results of one chunk of several stand in Postgres from this size on."""
RESULT_BYTES = 1_000
"""Of a result, when nobody says."""

_RUN, _CALL, _LOOP, _SHARED, _DELAY, _LIMIT, _STATUS = 5, 6, 9, 3, 5, 2, 1
"""Events: of a workflow's run, of a call, a loop, of either when it shares workflow tasks, of a timer waited for, of
one that only limits, and of the status at the end."""
_RUN_BYTES, _CALL_BYTES, _EVENT_BYTES, _CLAIM_BYTES = 1_000, 700, 120, 500
_RECORDED_BYTES = 1_024
"""A result of so many bytes stands in records as well, compressed: as if there were half of it again."""
_COPIES = 3
"""Of all that a loop gathers."""


class Amount(msgspec.Struct, frozen=True):
    """``children`` are the workflows of chunks of loops; ``workflow_runs`` has the playbook's too, and those that it
    continues as.
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


class Host(msgspec.Struct, frozen=True):
    """Where steps run, a playbook's workflow or all chunks of a loop: its events and bytes, the events after which
    another workflow goes on, the number of concurrent items (``pending``), the ``parts`` it is split into, and the
    ``calls`` each begun item makes.
    """

    events: int
    bytes: int
    renewed: int
    pending: int
    parts: int = 1
    calls: int = 1

    @property
    def runs(self) -> int:
        """Of workflows, one after the other or at once."""
        part = max(self.events / self.renewed, self.bytes / HISTORY_BYTES) / self.parts
        return self.parts * max(1, math.ceil(part))

    @property
    def longest(self) -> int:
        """Events of one run: when it has grown long it begins no further item, but waits for the calls of those that
        it has begun.
        """
        return min(math.ceil(self.events / self.parts), self.renewed + self.pending * self.calls * _CALL) + _RUN


class Prices(msgspec.Struct, frozen=True):
    """The prices of one graph for the work that its steps do, at least or at most."""

    graph: Graph
    work: Mapping[str, Work]
    in_flight: Mapping[str, int]
    rows: Mapping[str, Rows]
    sizes: Sizes

    def playbook(self, outermost: Iterable[str]) -> Host:
        """The workflow of the playbook itself, in which the steps run that no loop is around."""
        names = list(outermost)
        events = sum(map(self.events_around, names)) + _STATUS
        size = sum(map(self._bytes_around, names)) + _CLAIM_BYTES
        return Host(events, size, PLAYBOOK_EVENTS, width(self.graph, names))

    def loop(self, step: Step) -> Host:
        """The chunks of a loop begun once: its tasks run in them, or the steps of its region. Frames are none."""
        if step.name in self.rows:
            return Host(0, 0, LOOP_EVENTS, 0)
        begun, region = max(1, self.work[step.name].loops), step.loop.region if step.loop else ()
        parts = self._chunks(step.name)
        stores = begun * parts if self._stores_results(step.name) else 0
        events = self._task_events(step.name) + stores + sum(map(self.events_around, region))
        size = self._call_bytes(step.name) + sum(map(self._bytes_around, region))
        in_flight = self.in_flight[step.name]
        calls = len(step.tasks) + sum(len(self.graph.steps[name].tasks) for name in region)
        pending = in_flight * width(self.graph, region)
        return Host(events // begun, size // begun, LOOP_EVENTS, pending, parts, max(1, calls))

    def whole(self, runs: int) -> Amount:
        """What a run costs beside its steps."""
        limit = 1 if self.graph.timeout else 0
        return Amount(workflow_runs=runs, events=_RUN * runs + _STATUS + _LIMIT * limit, actions=runs + 1 + limit)

    def step(self, step: Step) -> Amount:
        """What a step costs, the workflows of its loop included."""
        work = self.work[step.name]
        if step.name in self.rows:
            frames = self._frames(step.name)
            loads = self._loads(step.name)
            return Amount(work.calls, events=self.events_around(step.name), actions=2 * frames + work.limits + loads)
        runs = work.loops * self.loop(step).runs if work.loops else 0
        stored = self._loads(step.name) + self._item_stores(step.name)
        stored += runs if self._stores_results(step.name) else 0
        tasks = self._task_events(step.name) + _LIMIT * work.limits
        return Amount(
            work.calls,
            runs,
            runs,
            events=tasks + self._loop_events(step.name) + _RUN * runs + stored,
            actions=2 * work.calls + work.delays + work.limits + 2 * runs + stored,
        )

    def bytes(self, step: Step) -> int:
        """In all histories."""
        own = 0 if step.name in self.rows else self._call_bytes(step.name)
        return own + self._loop_bytes(step)

    def whole_bytes(self, runs: int) -> int:
        """Of a run beside its steps."""
        return _RUN_BYTES + runs * (_CLAIM_BYTES + _RUN * _EVENT_BYTES)

    def events_around(self, name: str) -> int:
        """Events in the workflow around a step; the tasks of a loop run in another."""
        own = self._loop_events(name) if name in self.in_flight else self._task_events(name)
        return own + _LIMIT * self.work[name].limits + self._loads(name) + self._item_stores(name)

    def _bytes_around(self, name: str) -> int:
        return self._loop_bytes(self.graph.steps[name]) if name in self.in_flight else self._call_bytes(name)

    def _task_events(self, name: str) -> int:
        work = self.work[name]
        return work.calls * (_SHARED if work.is_shared else _CALL) + _DELAY * work.delays

    def _frames(self, name: str) -> int:
        """The activities of a framed loop."""
        work, rows = self.work[name], self.rows[name]
        items = work.items // max(1, work.loops)
        return work.loops * math.ceil(items / max(1, min(rows.most, math.ceil(items / rows.at_once))))

    def _loop_events(self, name: str) -> int:
        """In the parent of the chunks; two that run at once may share workflow tasks."""
        work = self.work[name]
        if not work.loops:
            return 0
        if name in self.rows:
            frames = self._frames(name)
            return frames * (_SHARED if work.is_loop_shared or frames > 1 else _CALL)
        runs = self.loop(self.graph.steps[name]).runs
        return work.loops * runs * (_SHARED if work.is_loop_shared or (runs > 1 and work.is_shared) else _LOOP)

    def _is_chunked(self, name: str) -> bool:
        """Whether the step is a loop that runs in chunks, not in frames."""
        return name in self.in_flight and name not in self.rows

    def _item_stores(self, name: str) -> int:
        """How often the items of a loop are stored, before its first chunk begins."""
        return self.work[name].loops if self._is_chunked(name) and self._chunks(name) > 1 else 0

    def _stores_results(self, name: str) -> bool:
        """Whether each chunk of a loop stores its results."""
        if not self._is_chunked(name) or not self.work[name].loops:
            return False
        parts = self._chunks(name)
        return self._gathered(name) // parts >= (STORED_RESULTS_BYTES if parts > 1 else STORED_BYTES)

    def _loads(self, name: str) -> int:
        """How many times the workflow loads the step's stored result."""
        size = self._gathered(name) if name in self.in_flight else self._size(name)
        is_stored = size >= STORED_BYTES or self._stores_results(name)
        return self.work[name].reads if is_stored else 0

    def _chunks(self, name: str) -> int:
        work = self.work[name]
        return chunks(work.items // max(1, work.loops), self.in_flight[name])

    def _gathered(self, name: str) -> int:
        """Bytes of the results of one loop."""
        work = self.work[name]
        return work.items // max(1, work.loops) * self._size(name)

    def _size(self, name: str) -> int:
        return self.sizes.result_bytes.get(name, RESULT_BYTES)

    def _call_bytes(self, name: str) -> int:
        tasks, work = self.graph.steps[name].tasks, self.work[name]
        config = sum(len(msgspec.json.encode(task.config.data)) for task in tasks) // max(1, len(tasks))
        each = _CALL_BYTES + _stored(config) + self._result_bytes(name)
        return work.calls * each + self._task_events(name) * _EVENT_BYTES

    def _result_bytes(self, name: str) -> int:
        size = self._size(name)
        return _stored(size) + (size // 2 if size <= _RECORDED_BYTES else 0)

    def _loop_bytes(self, step: Step) -> int:
        """What its parent sends and gets back, in both histories."""
        work = self.work[step.name]
        if not work.loops:
            return 0
        return work.loops * (
            2 * _CLAIM_BYTES + _COPIES * _stored(self._gathered(step.name)) + (_LOOP + _RUN) * _EVENT_BYTES
        )


def chunks(items: int, in_flight: int) -> int:
    """How many chunks a loop is cut into, one at least."""
    count = max(1, math.ceil(items / max(CHUNK_ITEMS, math.ceil(items / MAX_CHUNKS))))
    at_once = min(in_flight, CHUNKS_AT_ONCE) if count > 1 else 1
    return math.ceil(count / at_once) * at_once


def _stored(size: int) -> int:
    """In history."""
    return size if size < STORED_BYTES else _CLAIM_BYTES
