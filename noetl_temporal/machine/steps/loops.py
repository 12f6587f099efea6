"""The loop of a step, as the step sees it: a workflow of its own that is begun, and a report that comes back."""

from __future__ import annotations

from noetl_compiler import templates
from noetl_compiler.graph import Loop, Step
from noetl_temporal.event_ids import SLOTS
from noetl_temporal.machine.budget import Budget
from noetl_temporal.machine.commands import LoopInput, RunLoop
from noetl_temporal.machine.events import LoopReport
from noetl_temporal.machine.ids import fitted
from noetl_temporal.machine.loops.frames import frame_limits
from noetl_temporal.machine.loops.items import body_paths, collection_of, in_flight, selected
from noetl_temporal.machine.names import LOOP
from noetl_temporal.machine.state import StepRun
from noetl_temporal.machine.steps.execution import Execution
from noetl_temporal.machine.tasks.events import message_of
from noetl_temporal.machine.tasks.pipeline import End

__all__ = ["begin_loop", "emit_loop_end", "record_loop_end"]

_ENDS = {
    "ok": ("loop.done", "COMPLETED"),
    "error": ("loop.failed", "FAILED"),
    "cancelled": ("loop.cancelled", "CANCELLED"),
}


def begin_loop(execution: Execution, step: Step, loop: Loop, run: StepRun, budget: Budget) -> RunLoop | None:
    """Select the loop's items and tell of its beginning: the command that runs it, which nobody needs without items.

    None while the budget left items to look at for the next workflow task. Raises TemplateFailure.
    """
    scope = execution.host(step, run).scope()
    run.selection = run.selection or collection_of(loop, scope)
    items = selected(loop, scope, run.selection, budget)
    if items is None:
        return None
    run.selection = None
    at_once, slot = in_flight(loop, scope), _free_slot(execution, loop)
    frame = frame_limits(loop, scope, at_once)
    needed = templates.project(scope, body_paths(step))
    run.loop_id = fitted(run.id.replace("#", "/"))
    run.loop_event_id = _emit_started(execution, step, loop, run, len(items))
    given = LoopInput(
        execution_id=execution.id,
        source=execution.graph.source,
        step=step,
        items=items,
        scope=needed,
        slot=slot,
        after=execution.state.ids.last,
        event_id=run.loop_event_id,
        loop_id=run.loop_id,
        run=run.id,
        max_in_flight=at_once if frame is None else frame.row_concurrency,
        frame=frame,
    )
    return RunLoop(run.loop_id, given, f"{step.name}: {len(items)} items, {loop.mode}")


def _free_slot(execution: Execution, loop: Loop) -> int:
    """The lowest slot that no loop has, nor one that ended without a report of the ids it used."""
    taken = {*execution.state.slots.values(), *execution.state.lost_slots}
    slot = next((one for one in range(1, SLOTS) if one not in taken), None)
    if slot is None:
        raise templates.TemplateFailure(f"{len(taken):,} loops of this run are in flight or were lost", loop.span)
    return slot


def record_loop_end(execution: Execution, run: StepRun, report: LoopReport) -> None:
    """Give the loop's slot back; events of the playbook stand above those of the loop."""
    state = execution.state
    slot = state.slots.pop(run.loop_id or "")
    run.loop_attempts = report.attempts
    if report.clock:
        state.ids.rise(report.clock)
    else:
        state.lost_slots.append(slot)


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
