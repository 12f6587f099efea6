"""The loop of a step, as the step sees it: chunks that are begun, and reports that come back (loops/chunks.py)."""

from __future__ import annotations

from noetl_compiler import templates
from noetl_compiler.graph import Loop, Step
from noetl_temporal.event_ids import SLOTS
from noetl_temporal.machine.budget import Budget
from noetl_temporal.machine.commands import ChunkInput, RunChunk
from noetl_temporal.machine.events import ChunkReport
from noetl_temporal.machine.ids import fitted
from noetl_temporal.machine.loops.chunks import cut, next_chunk
from noetl_temporal.machine.loops.frames import frame_limits
from noetl_temporal.machine.loops.items import body_paths, collection_of, in_flight, mistake_of, selected
from noetl_temporal.machine.loops.offload import chunk_items_ref
from noetl_temporal.machine.names import LOOP
from noetl_temporal.machine.state import LoopProgress, StepRun
from noetl_temporal.machine.steps.execution import Execution
from noetl_temporal.machine.tasks.events import message_of
from noetl_temporal.machine.tasks.pipeline import End
from noetl_temporal.machine.waits.matching import may_wait

__all__ = ["begin_chunk", "emit_loop_end", "moved_slot", "open_loop", "record_slot"]

_CHUNK_SLOTS = SLOTS - 1
"""All but the playbook's own, from 1 on."""

_APART = 64
"""Slots at least between the first that a run gives to chunks and the first of the run that a reset makes of it: more
than one run has chunks in flight."""

_ENDS = {
    "ok": ("loop.done", "COMPLETED"),
    "error": ("loop.failed", "FAILED"),
    "cancelled": ("loop.cancelled", "CANCELLED"),
}


def open_loop(
    execution: Execution, step: Step, loop: Loop, run: StepRun, budget: Budget, limit: int
) -> LoopProgress | None:
    """Select the loop's items, cut them into chunks of at most half of ``limit`` bytes, and tell of its beginning.

    None while the budget left items to look at for the next workflow task. Raises TemplateFailure.
    """
    scope = execution.host(step, run).scope()
    run.selection = run.selection or collection_of(loop, scope)
    items = selected(loop, scope, run.selection, budget)
    if items is None:
        return None
    mistake = mistake_of(loop, scope, run.selection, execution.graph.names)
    if mistake is not None:
        execution.host(step, run).warn(mistake.message, mistake.span)
    run.selection = None
    at_once = in_flight(loop, scope)
    needed = templates.project(scope, body_paths(step))
    frame = frame_limits(loop, scope, at_once)
    ranges = cut(items, at_once, limit // 2, frame, is_whole=may_wait(step))
    id_ = fitted(run.id.replace("#", "/"))
    run.loop = LoopProgress(id_, len(items), items, needed, at_once, ranges, frame=frame)
    run.loop_event_id = _emit_started(execution, step, loop, run, len(items))
    return run.loop


def begin_chunk(execution: Execution, step: Step, loop: Loop, run: StepRun, progress: LoopProgress) -> RunChunk | None:
    """The command that runs the next chunk, None when none may begin. Raises TemplateFailure when slots are spent."""
    chunk = next_chunk(progress, _free_slot(execution, loop))
    if chunk is None:
        return None
    id_ = fitted(f"{progress.id}/{chunk.first}") if chunk.first else progress.id
    progress.chunks[id_] = chunk
    given = ChunkInput(
        execution_id=execution.id,
        source=execution.graph.source,
        names=execution.graph.names,
        step=step,
        items=[] if progress.kept else progress.items[chunk.first : chunk.first + chunk.size],
        scope=progress.scope,
        slot=chunk.slot,
        after=execution.state.ids.last,
        event_id=run.loop_event_id,
        loop_id=progress.id,
        run=run.id,
        total=progress.total,
        first=chunk.first,
        max_in_flight=chunk.share,
        is_sequential=progress.max_in_flight == 1,
        ctx=progress.ctx,
        frame=progress.frame,
        kept_items=chunk_items_ref(progress, chunk) if progress.kept else None,
        kept_scope=progress.kept_scope,
        secrets_key=execution.keychain.key,
    )
    return RunChunk(id_, given, f"{step.name}: {_part(given)}, {loop.mode}")


def _part(given: ChunkInput) -> str:
    if given.size == given.total:
        return f"{given.total:,} items"
    return f"items {given.first + 1:,} to {given.first + given.size:,} of {given.total:,}"


def _free_slot(execution: Execution, loop: Loop) -> int:
    """The first slot, from the run's own first on, that no chunk has, nor one that ended without a report of the ids
    it used.
    """
    state = execution.state
    loops = [run.loop for run in state.runs.values() if run.loop is not None]
    taken = {*state.lost_slots, *(chunk.slot for one in loops for chunk in one.chunks.values())}
    slots = ((state.first_slot - 1 + place) % _CHUNK_SLOTS + 1 for place in range(_CHUNK_SLOTS))
    slot = next((one for one in slots if one not in taken), None)
    if slot is None:
        raise templates.TemplateFailure(f"{len(taken):,} loops of this run are in flight or were lost", loop.span)
    return slot


def moved_slot(first: int, seed: int) -> int:
    """The first slot of chunks of the run that a reset made of one with this ``first`` slot. ``seed`` differs between
    resets.

    Chunks that the run before began after the point of the reset are unknown to the new run, and go on until they are
    terminated: in the same slots both would write rows with the same ids.
    """
    return (first - 1 + _APART + seed % (_CHUNK_SLOTS - 2 * _APART)) % _CHUNK_SLOTS + 1


def record_slot(execution: Execution, slot: int, report: ChunkReport) -> None:
    """Give a chunk's slot back; events of the playbook stand above those of the chunk."""
    if report.clock:
        execution.state.ids.rise(report.clock)
    else:
        execution.state.lost_slots.append(slot)


def _emit_started(execution: Execution, step: Step, loop: Loop, run: StepRun, size: int) -> int:
    return execution.journal.emit(
        "loop.started",
        step.name,
        LOOP,
        "STARTED",
        parent=run.event_id,
        span=loop.span,
        step_run_id=run.id,
        iterator={
            "iterator_name": loop.element,
            "total_count": size,
            "collection_size": size,
            "mode": loop.mode,
        },
    )


def emit_loop_end(execution: Execution, step: Step, run: StepRun, end: End) -> None:
    """The event of the loop's end, with its counts."""
    name, status = _ENDS[end.status]
    execution.journal.emit(
        name,
        step.name,
        LOOP,
        status,
        parent=run.loop_event_id,
        ends=run.loop_event_id,
        started=run.started,
        error=message_of(end.outcome),
        stats=end.outcome["meta"]["stats"],
        step_run_id=run.id,
    )
