"""The loop of a step, as the step sees it: a workflow of its own that is begun, and a report that comes back."""

from __future__ import annotations

from noetl_compiler import templates
from noetl_compiler.graph import Loop, Step
from noetl_temporal.machine.commands import LoopInput, RunLoop
from noetl_temporal.machine.loops.items import body_paths, in_flight, items_of
from noetl_temporal.machine.names import LOOP
from noetl_temporal.machine.state import StepRun
from noetl_temporal.machine.steps.execution import Execution
from noetl_temporal.machine.tasks.events import message_of
from noetl_temporal.machine.tasks.pipeline import End

__all__ = ["emit_loop_end", "loop_of"]


def loop_of(execution: Execution, step: Step, loop: Loop, run: StepRun) -> RunLoop:
    """Tell of the loop's beginning; the command that runs it, which nobody needs when it has no items.

    Raises TemplateFailure.
    """
    scope = execution.host(step, run).scope()
    items, at_once = items_of(loop, scope), in_flight(loop, scope)
    execution.state.loops += 1
    run.loop_event_id = _emit_started(execution, step, loop, run, len(items))
    run.loop_id = run.id.replace("#", "/")
    given = LoopInput(
        execution_id=execution.id,
        source=execution.graph.source,
        step=step,
        items=items,
        scope=templates.project(scope, body_paths(step)),
        lane=execution.state.loops,
        event_id=run.loop_event_id,
        loop_id=run.loop_id,
        max_in_flight=at_once,
    )
    return RunLoop(run.loop_id, given, f"{step.name}: {len(items)} items, {loop.mode}")


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
    """The event of the loop's end, with its counts. One that was cancelled did not get done either."""
    failed = end.status != "ok"
    execution.journal.emit(
        "loop.failed" if failed else "loop.done",
        step.name,
        LOOP,
        "FAILED" if failed else "COMPLETED",
        parent=run.loop_event_id,
        started=run.started,
        error=message_of(end.outcome),
        stats=end.outcome["meta"]["stats"],
        step_run_id=run.id,
    )
