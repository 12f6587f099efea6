"""The loop of a step: begins its chunks and handles their reports (loops/chunks.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from noetl_compiler import templates
from noetl_compiler.graph import Json, Loop, Step, Task
from noetl_temporal.event_ids import SLOTS
from noetl_temporal.limits import INLINE_BYTES
from noetl_temporal.machine.budget import Budget
from noetl_temporal.machine.call import StoredRef
from noetl_temporal.machine.commands import ChunkInput, FrameLimits, RunChunk
from noetl_temporal.machine.facts import ChunkReport
from noetl_temporal.machine.ids import shorten_id
from noetl_temporal.machine.journal import COMBINED_BYTES
from noetl_temporal.machine.loops.chunks import item_ranges, next_chunk, stored_list_ranges
from noetl_temporal.machine.loops.claims import claim_limits
from noetl_temporal.machine.loops.frames import NO_STORE, frame_limits
from noetl_temporal.machine.loops.items import (
    collection_of,
    max_in_flight_of,
    outer_names,
    select_items,
    stored_collection,
    where_warning,
)
from noetl_temporal.machine.loops.offload import chunk_items_ref
from noetl_temporal.machine.names import LOOP_KIND
from noetl_temporal.machine.state import Chunk, LoopProgress, StepRun
from noetl_temporal.machine.steps.execution import Execution
from noetl_temporal.machine.stored import logged_result
from noetl_temporal.machine.tasks.events import message_of
from noetl_temporal.machine.tasks.task_executions import End
from noetl_temporal.machine.waits.matching import may_wait
from noetl_temporal.shortening import abridge

__all__ = [
    "begin_chunk",
    "chunk_input",
    "emit_loop_end",
    "emit_loop_started",
    "loop_id",
    "moved_slot",
    "open_loop",
    "record_slot",
]

_CHUNK_SLOTS = SLOTS - 1
"""The slots for chunks, from 1 on; slot 0 is that of the playbook."""

_MIN_SLOT_DISTANCE = 64
"""The minimum distance between the first slots of a run and of its reset: more than a run has chunks in flight."""

_END_EVENTS = {
    "ok": ("loop.done", "COMPLETED"),
    "error": ("loop.failed", "FAILED"),
    "cancelled": ("loop.cancelled", "CANCELLED"),
}


def open_loop(
    execution: Execution, step: Step, loop: Loop, run: StepRun, budget: Budget, limit: int
) -> LoopProgress | None:
    """Select the items of a loop, divide them into chunks of at most half of ``limit`` bytes, and emit its start.

    None if the budget defers the selection of the remaining items to the next workflow task. Raises TemplateFailure.
    """
    scope = execution.host(step, run).scope()
    if loop.cursor is not None:
        return _open_cursor(execution, step, loop, run, scope)
    is_whole = _may_wait(execution, step, loop)
    collection = None if run.selection is not None or is_whole else stored_collection(loop, scope)
    if collection is not None:
        return _open_stored(execution, step, loop, run, scope, collection, limit)
    run.selection = run.selection or collection_of(loop, scope)
    items = select_items(loop, scope, run.selection, budget)
    if items is None:
        return None
    warning = where_warning(loop, scope, run.selection, execution.graph.names)
    if warning is not None:
        execution.host(step, run).warn(warning.message, warning.span)
    run.selection = None
    at_once = max_in_flight_of(loop, scope)
    loop_scope = outer_names(step, region_steps_of(execution.graph.steps, loop), scope)
    frame = _frame(execution, step, loop, run, scope, at_once, limit)
    ranges = item_ranges(items, at_once, limit // 2, frame, is_whole=is_whole)
    run.loop = LoopProgress(loop_id(run), len(items), items, loop_scope, at_once, ranges, frame=frame)
    emit_loop_started(execution, step, loop, run, run.loop)
    return run.loop


def _open_stored(
    execution: Execution,
    step: Step,
    loop: Loop,
    run: StepRun,
    scope: Mapping[str, Any],
    collection: StoredRef,
    limit: int,
) -> LoopProgress:
    """Open a loop over a stored list, whose items stay in the payload store. Raises TemplateFailure."""
    at_once = max_in_flight_of(loop, scope)
    loop_scope = outer_names(step, region_steps_of(execution.graph.steps, loop), scope)
    frame = _frame(execution, step, loop, run, scope, at_once, limit)
    parts = stored_list_ranges(collection, at_once, limit // 2, frame)
    ranges = [(first, part.count) for first, part in parts.items()]
    total = sum(part.count for part in parts.values())
    run.loop = LoopProgress(loop_id(run), total, [], loop_scope, at_once, ranges, frame=frame, stored_items=parts)
    emit_loop_started(execution, step, loop, run, run.loop)
    return run.loop


def _frame(
    execution: Execution, step: Step, loop: Loop, run: StepRun, scope: Mapping[str, Any], at_once: int, limit: int
) -> FrameLimits | None:
    """Return the limits of the loop's frames, None if it has no frames. Frames need a payload store: without one, when
    ``limit`` is at most INLINE_BYTES, a warning says that there are none. Raises TemplateFailure.
    """
    limits = frame_limits(loop, scope, at_once)
    if limits is None or loop.frame is None or limit > INLINE_BYTES:
        return limits
    execution.host(step, run).warn(NO_STORE, loop.frame.span)
    return None


def _open_cursor(execution: Execution, step: Step, loop: Loop, run: StepRun, scope: Mapping[str, Any]) -> LoopProgress:
    """Open a loop over a cursor: one range with as many rows as it may claim. Raises TemplateFailure."""
    claims = claim_limits(loop, scope)
    ranges = [(0, claims.rows)] if claims.rows else []
    loop_scope = outer_names(step, region_steps_of(execution.graph.steps, loop), scope)
    run.loop = LoopProgress(loop_id(run), 0, [], loop_scope, max_in_flight_of(loop, scope), ranges, claims=claims)
    emit_loop_started(execution, step, loop, run, run.loop)
    return run.loop


def begin_chunk(execution: Execution, step: Step, loop: Loop, run: StepRun, progress: LoopProgress) -> RunChunk | None:
    """Return the command to run the next chunk, None if none may begin. Raises TemplateFailure if no slot is free."""
    chunk = next_chunk(progress, _free_slot(execution, loop))
    if chunk is None:
        return None
    input_ = chunk_input(execution, step, loop, run, progress, chunk)
    progress.chunks[input_.chunk_id] = chunk
    return RunChunk(input_.chunk_id, input_, f"{step.name}: {_items_text(input_)}, {loop.mode}")


def chunk_input(
    execution: Execution, step: Step, loop: Loop, run: StepRun, progress: LoopProgress, chunk: Chunk
) -> ChunkInput:
    """Return the input of the chunk's machine."""
    claims = None if progress.claims is None else replace(progress.claims, rows=chunk.size)
    return ChunkInput(
        execution_id=execution.id,
        source=execution.graph.source,
        names=execution.graph.names,
        step=step,
        steps=region_steps_of(execution.graph.steps, loop),
        branch_failure=execution.graph.branch_failure,
        items=[] if progress.stored_items else progress.items[chunk.first : chunk.first + chunk.size],
        scope=progress.scope,
        slot=chunk.slot,
        after=execution.state.ids.last,
        event_id=run.loop_event_id,
        loop_id=progress.id,
        step_run_id=run.id,
        total=progress.total,
        first=chunk.first,
        max_in_flight=chunk.share,
        is_sequential=progress.max_in_flight == 1 and (claims is None or claims.row_concurrency == 1),
        ctx=progress.ctx,
        frame=progress.frame,
        claims=claims,
        stored_items=chunk_items_ref(progress, chunk) if progress.stored_items else None,
        scope_key=progress.scope_key,
        secrets_key=execution.keychain.key,
        circuits=progress.circuits,
    )


def region_steps_of(steps: Mapping[str, Step], loop: Loop) -> dict[str, Step]:
    """Return the steps of the loop's region and of nested regions."""
    region_steps: dict[str, Step] = {}
    remaining_names = list(loop.region[::-1])
    while remaining_names:
        name = remaining_names.pop()
        if name not in region_steps:
            region_steps[name] = steps[name]
            inner = steps[name].loop
            remaining_names += inner.region[::-1] if inner is not None else ()
    return region_steps


def _may_wait(execution: Execution, step: Step, loop: Loop) -> bool:
    return any(may_wait(inner) for inner in (step, *region_steps_of(execution.graph.steps, loop).values()))


def _items_text(chunk: ChunkInput) -> str:
    if chunk.claims is not None:
        return "rows of a cursor" if not chunk.first else f"rows of a cursor, after {chunk.first:,}"
    if chunk.size == chunk.total:
        return f"{chunk.total:,} items"
    return f"items {chunk.first + 1:,} to {chunk.first + chunk.size:,} of {chunk.total:,}"


def _free_slot(execution: Execution, loop: Loop) -> int:
    """Return the first free slot of the run: no chunk has it, and no chunk that had it ended without a report."""
    state = execution.state
    loops = [run.loop for run in state.runs.values() if run.loop is not None]
    used_slots = {*state.lost_slots, *(chunk.slot for progress in loops for chunk in progress.chunks.values())}
    slots = ((state.first_slot - 1 + offset) % _CHUNK_SLOTS + 1 for offset in range(_CHUNK_SLOTS))
    slot = next((slot for slot in slots if slot not in used_slots), None)
    if slot is None:
        raise templates.TemplateFailure(f"{len(used_slots):,} loops of this run are in flight or were lost", loop.span)
    return slot


def moved_slot(first: int, seed: int) -> int:
    """Return the first slot for chunks after a reset of a run with this ``first`` slot. ``seed`` differs between
    resets.

    Chunks that began after the point of the reset are unknown to the new run, and run until they are terminated. In the
    same slots, both would write rows with the same ids.
    """
    return (first - 1 + _MIN_SLOT_DISTANCE + seed % (_CHUNK_SLOTS - 2 * _MIN_SLOT_DISTANCE)) % _CHUNK_SLOTS + 1


def record_slot(execution: Execution, slot: int, report: ChunkReport) -> None:
    """Free the slot of a chunk; later events of the playbook get ids above those of the chunk."""
    if report.last_event_ms:
        execution.state.ids.skip_up_to(report.last_event_ms)
    else:
        execution.state.lost_slots.append(slot)


def loop_id(run: StepRun) -> str:
    """Return ``<step>/<n>`` for the loop of ``<step>#<n>``."""
    return shorten_id(run.id.replace("#", "/"))


def emit_loop_started(execution: Execution, step: Step, loop: Loop, run: StepRun, progress: LoopProgress) -> None:
    """Emit the start of a loop. A repeated loop reuses the results of some items. The number of rows of a cursor
    is unknown.
    """
    run.loop_event_id = execution.journal.emit(
        "loop.started",
        step.name,
        LOOP_KIND,
        "STARTED",
        parent=run.event_id,
        span=loop.span,
        step_run_id=run.id,
        reused_items=progress.reused_items or None,
        loop_id=progress.id,
        iterator=_iterator_meta(loop, progress),
        context=_description(step, progress),
    )


def _iterator_meta(loop: Loop, progress: LoopProgress) -> dict[str, Json]:
    """Return the size of the collection, and ``chunk_size`` and the number of ``chunks`` of a loop that has chunks."""
    size = progress.total if progress.claims is None else None
    meta: dict[str, Json] = {
        "iterator_name": loop.element,
        "total_count": size,
        "collection_size": size,
        "mode": loop.mode,
        "concurrency": progress.max_in_flight if loop.is_parallel else None,
    }
    if loop.is_chunked:
        count = sum(map(len, progress.items))
        meta |= {"total_count": count, "collection_size": count, "chunks": size}
        meta["chunk_size"] = len(progress.items[0]) if progress.items else None
    return {name: value for name, value in meta.items() if value is not None}


def _description(step: Step, progress: LoopProgress) -> dict[str, Json]:
    """Return the items, abridged if they are large, and descriptions of the tasks that run for each."""
    tasks = [_task_description(task) for task in step.tasks]
    description: dict[str, Json] = {"nested_task": tasks[0] if len(tasks) == 1 else tasks} if tasks else {}
    if progress.claims is None:
        is_short = 2 * len(progress.items) <= COMBINED_BYTES  # an item has at least two bytes with its comma
        description["collection"] = abridge(progress.items, COMBINED_BYTES) if is_short else {"_truncated": True}
    return description


def _task_description(task: Task) -> dict[str, Json]:
    policy = task.policy
    clause = None if policy is None else policy.retry_clause
    return {"name": task.label, "tool": task.kind, **({} if clause is None else {"retry": clause})}


def emit_loop_end(execution: Execution, step: Step, run: StepRun, end: End) -> int:
    """Emit the end of a loop, with its counts. Returns the id of the event."""
    name, status = _END_EVENTS[end.status]
    meta: dict[str, Any] = {"stats": end.outcome["meta"]["stats"], "step_run_id": run.id, "loop_id": loop_id(run)}
    return execution.journal.emit(
        name,
        step.name,
        LOOP_KIND,
        status,
        parent=run.loop_event_id,
        ends=run.loop_event_id,
        started=run.started,
        result=logged_result(end.outcome, meta),
        error=message_of(end.outcome),
        meta=meta,
    )
