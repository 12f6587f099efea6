"""Checks that chunks process every item of their loop once, within max_in_flight, and in order if it is sequential."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from dev.simulate.run_trace import Finding, RunTrace
from noetl_temporal.machine.commands import ChunkInput, RunChunk
from noetl_temporal.machine.domain import DomainEvent
from noetl_temporal.machine.facts import ChunkFinished

__all__ = ["check_loops"]


def check_loops(run_trace: RunTrace) -> None:
    """Raises Finding."""
    _check_items_start_once(run_trace)
    _check_all_items_done(run_trace)
    _check_max_in_flight(run_trace)


def _counts_of_starts(run_trace: RunTrace) -> dict[str, Counter[int]]:
    """Return for each loop how often each item began."""
    starts: dict[str, Counter[int]] = defaultdict(Counter)
    for trace in run_trace.traces.values():
        for event in trace.events if trace.name else ():
            if event.type == "loop.iteration.started":
                starts[event.meta["loop_id"]][event.meta["iteration"]] += 1
    return starts


def _check_items_start_once(run_trace: RunTrace) -> None:
    for loop, items in _counts_of_starts(run_trace).items():
        repeated = [index for index, count in items.items() if count > 1]
        if repeated:
            raise Finding("an item runs twice", f"item {repeated[0]} of {loop[:80]}")


def _check_all_items_done(run_trace: RunTrace) -> None:
    """Check that a completed loop ran all of its items, unless fail_fast stopped it and best_effort completed it."""
    chunk_inputs = [
        command.input for turn in run_trace.main.turns for command in turn.commands if isinstance(command, RunChunk)
    ]
    runs = {chunk_input.loop_id: chunk_input.step_run_id for chunk_input in chunk_inputs}
    runs_of = {chunk_input.step_run_id: chunk_input.step.name for chunk_input in chunk_inputs}
    retried_steps = {
        emitted_event.node for emitted_event in run_trace.main.events if emitted_event.meta.get("action") == "retry"
    }
    starts = {runs[loop]: items for loop, items in _counts_of_starts(run_trace).items() if loop in runs}
    for event in run_trace.main.events:
        stats: dict[str, Any] = event.meta.get("stats") or {}
        loop = run_trace.graph.steps[event.node].loop if event.type == "loop.done" else None
        is_cut = loop is not None and loop.on_error == "fail_fast" and stats["failed"]
        if loop is not None and not is_cut:
            items = starts.get(str(event.meta["step_run_id"]), Counter())
            if event.node in retried_steps and loop.cursor is None:  # a loop over a cursor claims rows again
                _check_retried_items(
                    run_trace, event, {loop for loop, run in runs.items() if runs_of[run] == event.node}
                )
                continue
            if sorted(items) != list(range(stats["total"])):
                raise Finding("a loop is done without all of its items", f"{len(items)} of {stats['total']} began")


def _check_retried_items(run_trace: RunTrace, event: DomainEvent, loops: set[str]) -> None:
    """Check that a retried loop reuses the items that succeeded before, and runs the others."""
    done = {
        event.meta["iteration"]
        for trace in run_trace.traces.values()
        for event in (trace.events if trace.name else ())
        if event.type == "loop.iteration.done" and event.meta["loop_id"] in loops
    }
    stats: dict[str, Any] = event.meta["stats"]
    if len(done) != stats["success"]:
        raise Finding("a loop is done without all of its items", f"{len(done)} of {stats['success']} succeeded")


def _check_max_in_flight(run_trace: RunTrace) -> None:
    running: dict[str, ChunkInput] = {}
    last_first_items: dict[str, int] = {}
    for turn in run_trace.main.turns:
        if isinstance(turn.fact, ChunkFinished):
            running.pop(turn.fact.chunk_id, None)
        for command in turn.commands:
            if isinstance(command, RunChunk):
                _check_order(last_first_items, command.input)
                running[command.chunk_id] = command.input
                _check_shares([chunk for chunk in running.values() if chunk.loop_id == command.input.loop_id])


def _check_order(last_first_items: dict[str, int], chunk: ChunkInput) -> None:
    """Check that each chunk of a sequential loop begins after the items of earlier ones."""
    if chunk.is_sequential and chunk.first < last_first_items.get(chunk.loop_id, 0):
        raise Finding("chunks of a sequential loop run out of order", f"{chunk.first} of {chunk.loop_id[:80]}")
    last_first_items[chunk.loop_id] = chunk.first


def _check_shares(chunks: list[ChunkInput]) -> None:
    loop = chunks[0].step.loop
    if chunks[0].is_sequential and len(chunks) > 1:
        raise Finding("chunks of a sequential loop run at once", f"{len(chunks)} of {chunks[0].loop_id[:80]}")
    max_in_flight = loop.max_in_flight.data if loop is not None and loop.max_in_flight is not None else None
    slots = sum(chunk.max_in_flight for chunk in chunks)
    if isinstance(max_in_flight, int) and slots > max(1, max_in_flight):
        raise Finding("more items than max_in_flight run at once", f"{slots} of {max_in_flight}")
