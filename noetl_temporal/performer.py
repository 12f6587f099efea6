"""Performs a machine's commands on Temporal and collects what happened as facts.

How it works. ``perform`` starts each command at once and in order: a tool call is an activity, a timer a timer, a
loop a child workflow. Whatever ends puts a fact into the inbox; the workflow takes the facts one by one and feeds
them. Nothing here decides.

Continue-as-new. A run whose history has grown long *holds*: commands that would start something are kept instead,
until what is in flight has ended. Then the machine's snapshot and the kept commands are all there is, and the next
run goes on from them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, TypeAlias, cast

import msgspec
from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    ChildWorkflowError,
    is_cancelled_exception,
)
from temporalio.exceptions import (
    TimeoutError as TemporalTimeoutError,
)

from noetl_temporal.attempt_details import attempts_in
from noetl_temporal.loop_run import LoopEnd, LoopRun
from noetl_temporal.machine.call import ToolCall, ToolReport
from noetl_temporal.machine.commands import CallTool, Cancel, Command, Emit, Finish, RunLoop, StartTimer
from noetl_temporal.machine.events import Event, LoopFinished, LoopReport, TimerFired, ToolFinished
from noetl_temporal.naming import LOOP_WORKFLOW, activity_type, tool_queue
from noetl_temporal.trail import Trail

__all__ = ["Performer"]

HEARTBEAT_TIMEOUT = timedelta(seconds=10)
"""A worker that is silent for so long is lost; its calls go to another."""

DEFAULT_CALL_TIMEOUT = 3600.0
GRACE_SECONDS = 30.0
"""The activity ends a call at its own timeout; Temporal's comes later and means that the worker hangs."""

_Task: TypeAlias = "asyncio.Task[Any]"
_RETRY = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30))
"""Only for attempts lost with their worker: a rule's retry brings its own delay."""


class Performer:
    """``inbox`` has the facts not yet fed, ``finish`` the machine's last command."""

    def __init__(self, trail: Trail, queues: Mapping[str, str], on_emit: Callable[[Emit], None]) -> None:
        self.inbox: deque[Event] = deque()
        self.finish: Finish | None = None
        self.holding = False
        self.held: list[Command] = []
        self._trail = trail
        self._queues = queues
        self._on_emit = on_emit
        self._tasks: dict[str, _Task] = {}

    @property
    def is_idle(self) -> bool:
        """Nothing is in flight."""
        return not self._tasks

    def perform(self, commands: list[Command]) -> None:
        """Start what the commands ask for, in order."""
        for command in commands:
            if self.holding and isinstance(command, CallTool | StartTimer | RunLoop):
                self.held.append(command)
            else:
                self._perform(command)

    def _perform(self, command: Command) -> None:
        match command:
            case Emit():
                self._trail.add(command.event)
                self._on_emit(command)
            case CallTool():
                self._call(command)
            case StartTimer():
                self._start_timer(command)
            case RunLoop():
                self._run_loop(command)
            case Cancel():
                self._cancel(command)
            case Finish():
                self.finish = command

    # ---- tool calls -----------------------------------------------------------------------------------------------

    def _call(self, command: CallTool) -> None:
        call = command.call
        limit = (call.timeout or DEFAULT_CALL_TIMEOUT) + GRACE_SECONDS
        handle = workflow.start_activity(
            activity_type(call.kind),
            call,
            task_queue=self._queues.get(command.queue) or tool_queue(command.queue),
            result_type=ToolReport,
            start_to_close_timeout=timedelta(seconds=limit),
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            retry_policy=_RETRY,
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            summary=command.summary,
        )
        self._track(call.id, handle, lambda task: _tool_finished(call, task))

    # ---- timers ---------------------------------------------------------------------------------------------------

    def _start_timer(self, command: StartTimer) -> None:
        task = asyncio.create_task(workflow.sleep(command.seconds, summary=command.summary))
        self._track(command.timer_id, task, lambda ended: _timer_fired(command.timer_id, ended))

    # ---- loops ----------------------------------------------------------------------------------------------------

    def _run_loop(self, command: RunLoop) -> None:
        task = asyncio.create_task(self._child(command))
        self._track(command.loop_id, task, lambda ended: _loop_finished(command, ended))

    async def _child(self, command: RunLoop) -> LoopEnd:
        info = workflow.info()
        return cast(
            "LoopEnd",
            await workflow.execute_child_workflow(
                LOOP_WORKFLOW,
                LoopRun(command.input, dict(self._queues)),
                id=f"{info.workflow_id}/{command.loop_id}",
                result_type=LoopEnd,
                parent_close_policy=workflow.ParentClosePolicy.REQUEST_CANCEL,
                cancellation_type=workflow.ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
                search_attributes=info.typed_search_attributes,
                static_summary=command.summary,
            ),
        )

    # ---- ends -----------------------------------------------------------------------------------------------------

    def _cancel(self, command: Cancel) -> None:
        """What was held back is simply not started; its end is fed as that of anything cancelled."""
        task = self._tasks.get(command.id)
        if task is not None:
            task.cancel()
            return
        for held in [one for one in self.held if _id_of(one) == command.id]:
            self.held.remove(held)
            if isinstance(held, CallTool):
                self.inbox.append(ToolFinished(_now(), command.id, _lost("cancelled", "cancelled"), cancelled=True))
            elif isinstance(held, RunLoop):
                self.inbox.append(LoopFinished(_now(), command.id, LoopReport("cancelled")))

    def _track(self, id_: str, task: _Task, fact: Callable[[_Task], Event | None]) -> None:
        self._tasks[id_] = task

        def ended(done: _Task) -> None:
            del self._tasks[id_]
            happened = fact(done)
            if happened is not None:
                self.inbox.append(happened)

        task.add_done_callback(ended)

    def resume(self, held: list[Any]) -> None:
        """Perform what the run before kept."""
        self.perform([msgspec.convert(one, CallTool | StartTimer | RunLoop) for one in held])

    def kept(self) -> list[Any]:
        """The held commands as plain JSON."""
        return cast("list[Any]", msgspec.to_builtins(self.held, str_keys=True))


def _now() -> int:
    return int(workflow.time() * 1000)


def _id_of(command: Command) -> str:
    match command:
        case CallTool():
            return command.call.id
        case StartTimer():
            return command.timer_id
        case RunLoop():
            return command.loop_id
        case _:
            return ""


def _tool_finished(call: ToolCall, task: _Task) -> Event:
    if task.cancelled():
        return ToolFinished(_now(), call.id, _lost("cancelled", "cancelled"), cancelled=True)
    error = task.exception()
    if error is None:
        report: ToolReport = task.result()
        cancelled = bool(report.attempts) and report.attempts[-1].status == "cancelled"
        return ToolFinished(_now(), call.id, report, cancelled)
    if is_cancelled_exception(error):
        return ToolFinished(_now(), call.id, _lost("cancelled", "cancelled"), cancelled=True)
    return ToolFinished(_now(), call.id, _report_of(error))


def _report_of(error: BaseException) -> ToolReport:
    """An activity that ended without a report of its own."""
    cause = error.cause if isinstance(error, ActivityError) else error
    if isinstance(cause, TemporalTimeoutError):
        lost = _lost("worker_lost", f"no worker finished the call: {cause.message}")
        return msgspec.structs.replace(lost, attempts=attempts_in(cause.last_heartbeat_details))
    if isinstance(cause, ApplicationError):
        return _lost(str(cause.type or "internal"), cause.message)
    return _lost("internal", str(cause))


def _lost(kind: str, message: str) -> ToolReport:
    return ToolReport({"status": "error", "error": {"kind": kind, "message": message, "retryable": True}})


def _timer_fired(timer_id: str, task: _Task) -> Event | None:
    return None if task.cancelled() or task.exception() else TimerFired(_now(), timer_id)


def _loop_finished(command: RunLoop, task: _Task) -> Event:
    if not task.cancelled() and task.exception() is None:
        return LoopFinished(_now(), command.loop_id, cast("LoopEnd", task.result()).report)
    error = None if task.cancelled() else task.exception()
    if error is None or is_cancelled_exception(error):
        return LoopFinished(_now(), command.loop_id, LoopReport("cancelled"))
    cause = error.cause if isinstance(error, ChildWorkflowError) else error
    total = len(command.input.items)
    stats = {"total": total, "success": 0, "failed": total, "skipped": 0}
    return LoopFinished(
        _now(), command.loop_id, LoopReport("error", [None] * total, stats, (_failure(command, cause),))
    )


def _failure(command: RunLoop, cause: BaseException | None) -> Any:
    from noetl_temporal.machine.failing import error_outcome, failure_at

    input_ = command.input
    return failure_at(input_.source, input_.step.name, error_outcome("loop", str(cause)), input_.step.span, None, -1)
