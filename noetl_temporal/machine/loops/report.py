"""The report of a chunk of a loop, when it ends."""

from __future__ import annotations

from typing import Literal

from noetl_compiler.graph import Json
from noetl_temporal.machine.commands import ChunkInput
from noetl_temporal.machine.facts import ChunkReport
from noetl_temporal.machine.loops.offload import stored_results
from noetl_temporal.machine.loops.unfinished import consecutive_ranges
from noetl_temporal.machine.state import LoopState

__all__ = ["chunk_report"]


def chunk_report(
    chunk: ChunkInput, state: LoopState, results: list[Json], total: int, returned_count: int
) -> ChunkReport:
    """Return the report of a chunk with ``total`` items, besides those that it returned. ``results`` are those of the
    items; empty if they are stored.
    """
    indices = range(chunk.first, chunk.first + total)
    failed = state.failures.total
    return ChunkReport(
        status=_status(state),
        results=results,
        stats={
            "total": total,
            "success": state.succeeded,
            "failed": failed,
            "skipped": total - state.succeeded - failed,
        },
        failures=state.failures,
        failure=state.failure,
        assigns=tuple((index, *pair) for index in indices for pair in state.assigns.get(index, [])),
        ctx=state.ctx if chunk.is_sequential else {},
        attempts=state.attempts,
        retries=state.retries,
        unstarted=returned_count,
        last_event_ms=state.ids.last,
        steps=state.steps,
        warnings=tuple(state.warnings),
        stored=None if state.results_ref is None else stored_results(state, indices, state.results_ref),
        unfinished=_unfinished_ranges(state, indices),
        circuits=state.circuits,
        route_records=state.route_records,
    )


def _status(state: LoopState) -> Literal["ok", "error", "cancelled"]:
    if state.stop is not None and state.stop.kind == "cancel":
        return "cancelled"
    return "error" if state.failures.total or state.failure else "ok"


def _unfinished_ranges(state: LoopState, indices: range) -> tuple[tuple[int, int], ...]:
    """Return the ranges of items without success; empty if no item succeeded, as all are unfinished then."""
    if not 0 < state.succeeded < len(indices):
        return ()
    return consecutive_ranges(
        index for index in indices if index not in state.results and index not in state.stored_results
    )
