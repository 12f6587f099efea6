"""Performs a machine's commands on Temporal, and collects their results as facts.

How it works. A tool call is an activity; a loop and the call of a playbook (sub_playbooks.py) are child workflows. When
one of them or a timer ends, a fact is put into the inbox. The host feeds the facts one by one, and then lets the
performer start the calls and loops, in order. Nothing here makes decisions.

Temporal drops a call that is cancelled in the workflow task in which it started, and with it the events in its header.
So a call that is cancelled before it was started is never started, and a call that an earlier turn of the same workflow
task has started is cancelled in the next workflow task.

The id of an activity is that of its call, the id of a child that of its loop, so a replay detects swapped calls.

A value over Temporal's limit would fail the workflow task on every retry, so its call or loop ends with ``too_large``
instead.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, TypeAlias, cast

import msgspec
from temporalio import workflow
from temporalio.common import RetryPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    ChildWorkflowError,
    is_cancelled_exception,
)
from temporalio.exceptions import (
    TimeoutError as TemporalTimeoutError,
)

from noetl_compiler.graph import Json
from noetl_compiler.language.tools import PLAYBOOK
from noetl_temporal.machine.call import ToolCall, ToolReport
from noetl_temporal.machine.commands import (
    AnswerWait,
    CallTool,
    Cancel,
    CloseWait,
    Command,
    Emit,
    Finish,
    LoadValue,
    OpenWait,
    PauseChildren,
    RunChunk,
    StartTimer,
    StoreValues,
)
from noetl_temporal.machine.facts import (
    ChunkFinished,
    ChunkReport,
    Fact,
    TimerFired,
    ToolFinished,
    WaitClosed,
    WaitOpened,
)
from noetl_temporal.machine.failures import error_outcome
from noetl_temporal.machine.pause import Pause
from noetl_temporal.messages.attempt_details import records_in_details
from noetl_temporal.messages.control_requests import PauseNotice
from noetl_temporal.messages.frame import FRAME_KIND, FrameEnd, FrameInput
from noetl_temporal.naming import LOOP_WORKFLOW, activity_type, queue_of, summary
from noetl_temporal.payloads.stored_values import loaded_fact, start_load, start_store, stored_fact
from noetl_temporal.workflows.current_workflow import cancel_child, child_id_of_command, now
from noetl_temporal.workflows.loop_run import LoopEnd, LoopRun, items_and_scope, split_input
from noetl_temporal.workflows.orphans import start_terminating_orphans
from noetl_temporal.workflows.steady_time import steady_end
from noetl_temporal.workflows.sub_playbooks import Caller, SubPlaybooks, playbook_fact
from noetl_temporal.workflows.trail import Trail
from noetl_temporal.workflows.wait_messages import WaitMessages

__all__ = ["Performer"]

HEARTBEAT_TIMEOUT = timedelta(seconds=20)
"""After this time without a heartbeat an attempt counts as lost, and Temporal starts another one."""

CALL_TIMEOUT = timedelta(days=3650)
"""The timeout of an activity, which Temporal requires. The activity itself enforces the timeout of the call."""

_Task: TypeAlias = "asyncio.Task[Any]"
_RETRY = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30))
"""The delays after lost attempts. An attempt that a rule retries ends with the delay of the rule."""


class Performer:
    """Performs commands. ``inbox`` has the facts that were not fed yet. ``has_news`` is set when a fact arrives, or the
    start of a chunk becomes known; the host resets it.

    ``finish`` is the last command of the machine, ``limit`` the maximum size of a value in bytes. ``messages`` sends
    messages to other workflows of the playbook. ``on_emit`` is called with each Emit.
    """

    def __init__(
        self,
        trail: Trail,
        queues: Mapping[str, str],
        limit: int,
        caller: Caller,
        on_emit: Callable[[Emit], None],
    ) -> None:
        self.inbox: deque[Fact] = deque()
        self.finish: Finish | None = None
        self.has_news = False
        self._trail = trail
        self._queues = queues
        self._limit = limit
        self._on_emit = on_emit
        self._caller = caller
        self._sub_playbooks = SubPlaybooks(caller, queues, limit, self._pass_on_pause)
        self.messages = WaitMessages(self.note, now)
        self._tasks: dict[str, _Task] = {}
        self._unstarted: dict[str, CallTool | RunChunk | StoreValues | LoadValue] = {}
        self._start_workflow_tasks: dict[str, int] = {}
        self._late_cancels: list[str] = []
        self._chunks: set[str] = set()
        self._chunk_run_ids: set[str] = set()
        self._starting_chunks: set[str] = set()
        self._pause: PauseNotice | None = None
        self._latest_time = 0

    def note(self, fact: Fact) -> None:
        """Add a fact to the inbox."""
        self.inbox.append(fact)
        self.has_news = True
        self._latest_time = max(self._latest_time, fact.at)

    def record_events(self) -> None:
        """Record in a marker the events that no command has carried yet."""
        self._trail.record()

    async def wait_until_recorded(self) -> bool:
        """Wait until all markers are recorded and all messages are sent: the run must not end before that. Returns
        whether there were markers.
        """
        has_recorded = await self._trail.wait_until_recorded()
        await self.messages.wait_until_sent()
        return has_recorded

    def size_of(self, value: Any) -> int:
        """Return the size of a value in history, in bytes."""
        return len(msgspec.json.encode(value))

    def perform(self, commands: list[Command]) -> None:
        """Perform the commands in order. Calls, loops, stores and loads are started by ``start``."""
        for command in commands:
            self._perform(command)

    @property
    def has_late_cancels(self) -> bool:
        """Whether a call or loop must be cancelled in the next workflow task."""
        return bool(self._late_cancels)

    def cancel_late(self) -> None:
        """Cancel the calls and loops whose cancel was requested in the workflow task that started them."""
        cancels, self._late_cancels = self._late_cancels, []
        for id_ in cancels:
            self._cancel_started(id_)

    def start(self) -> None:
        """Start the calls, loops, stores and loads that were not started yet, in order."""
        unstarted, self._unstarted = self._unstarted, {}
        for command in unstarted.values():
            match command:
                case CallTool():
                    self._call(command)
                case RunChunk():
                    self._run_chunk(command)
                case StoreValues():
                    self._store_values(command)
                case LoadValue():
                    self._load_value(command)

    def _perform(self, command: Command) -> None:
        match command:
            case Emit():
                self._trail.add(command.event, command.size)
                self._on_emit(command)
            case CallTool():
                self._unstarted[command.call.id] = command
            case RunChunk():
                self._unstarted[command.chunk_id] = command
                if command.input.frame is None:
                    self._starting_chunks.add(command.chunk_id)
            case StoreValues() | LoadValue():
                self._unstarted[command.id] = command
            case StartTimer():
                self._start_timer(command)
            case OpenWait() | CloseWait() | AnswerWait() | PauseChildren():
                self._notify(command)
            case Cancel():
                self._cancel(command)
            case Finish():
                self.finish = command

    def _notify(self, command: OpenWait | CloseWait | AnswerWait | PauseChildren) -> None:
        match command:
            case PauseChildren():
                self._pause_children(command)
            case AnswerWait():
                self.messages.send_answer(command, child_id_of_command(command.chunk_id))
            case _:
                self.messages.notify_playbook(command)

    # ---- tool calls -----------------------------------------------------------------------------------------------

    def _call(self, command: CallTool) -> None:
        call = command.call
        if command.size > self._limit:
            self.note(
                ToolFinished(now(), call.id, _undecided_report("too_large", self._too_large("call", command.size)))
            )
            return
        if call.kind == PLAYBOOK:
            self._track_event_carrier(call.id, self._sub_playbooks.start(call), lambda task: playbook_fact(call, task))
            return
        summary_text = command.summary if call.iteration is None else None
        handle = self._start_activity(call.kind, call.id, command.queue, call, ToolReport, summary_text)
        self._track_event_carrier(call.id, handle, lambda task: _tool_fact(call, task))

    def _start_activity(
        self, kind: str, id_: str, queue: str, argument: Any, result_type: type, summary_text: str | None
    ) -> _Task:
        """Start an activity; after a cancel the task waits for its end. ``queue`` is symbolic.

        Calls for the items of loops have no summary, which would be one more payload in each event: their ids contain
        step, item and task already.
        """
        return workflow.start_activity(
            activity_type(kind),
            argument,
            activity_id=id_,
            task_queue=queue_of(queue, self._queues),
            result_type=result_type,
            start_to_close_timeout=CALL_TIMEOUT,
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            retry_policy=_RETRY,
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            summary=None if summary_text is None else summary(summary_text),
        )

    def _too_large(self, noun: str, size: int) -> str:
        return f"the {noun} has {size:,} bytes, over {self._limit:,}: set NOETL_POSTGRES, to store large values there"

    # ---- stored values ----------------------------------------------------------------------------------------------

    def _store_values(self, command: StoreValues) -> None:
        start = now()
        self._track(command.id, start_store(command), lambda task: stored_fact(self._time_of_end(start), command, task))

    def _load_value(self, command: LoadValue) -> None:
        start = now()
        self._track(command.id, start_load(command), lambda task: loaded_fact(self._time_of_end(start), command, task))

    def _time_of_end(self, start: int) -> int:
        """Return the time of the fact of a store or load that has ended: not before the time of any earlier fact."""
        return max(steady_end(start, now()), self._latest_time)

    # ---- timers ---------------------------------------------------------------------------------------------------

    def _start_timer(self, command: StartTimer) -> None:
        task = asyncio.create_task(workflow.sleep(command.seconds, summary=summary(command.summary)))
        self._track(command.timer_id, task, lambda ended: _timer_fact(command.timer_id, ended))

    # ---- loops ----------------------------------------------------------------------------------------------------

    def _run_chunk(self, command: RunChunk) -> None:
        """Run a chunk in a child workflow, or as a frame in an activity; both end with the same report."""
        size = self.size_of(command.input)
        if size > self._limit:
            report = _failed_loop_report(command, "too_large", self._too_large("loop", size))
            self._starting_chunks.discard(command.chunk_id)
            self.note(ChunkFinished(now(), command.chunk_id, report))
            return
        task = (
            self._start_frame(command)
            if command.input.frame is not None
            else asyncio.create_task(self._run_child_workflow(command))
        )
        self._track_event_carrier(command.chunk_id, task, lambda ended: _chunk_fact(command, ended))

    def _start_frame(self, command: RunChunk) -> _Task:
        frame_input = FrameInput(command.input, limit=self._limit)
        return self._start_activity(FRAME_KIND, command.chunk_id, FRAME_KIND, frame_input, FrameEnd, command.summary)

    async def _run_child_workflow(self, command: RunChunk) -> LoopEnd:
        """Run a chunk in a child workflow. After a reset it replaces the child with the same id that the former run
        started.
        """
        info, input_ = workflow.info(), command.input
        chunk, body = split_input(input_)
        loop_run = LoopRun(chunk, dict(self._queues), limit=self._limit, depth=self._caller.depth)
        if any(task.kind == PLAYBOOK for step in (body.step, *body.steps.values()) for task in step.tasks):
            body = msgspec.structs.replace(body, calls=self._caller.calls, caller=self._caller.digest)
        child = await workflow.start_child_workflow(
            LOOP_WORKFLOW,
            args=[loop_run, body, *items_and_scope(chunk, input_.items, input_.scope)],
            id=child_id_of_command(command.chunk_id),
            id_reuse_policy=WorkflowIDReusePolicy.TERMINATE_IF_RUNNING,
            result_type=LoopEnd,
            parent_close_policy=workflow.ParentClosePolicy.REQUEST_CANCEL,
            cancellation_type=workflow.ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
            search_attributes=info.typed_search_attributes,
            static_summary=summary(command.summary),
        )
        self._chunks.add(command.chunk_id)
        self._chunk_run_ids.add(child.first_execution_run_id or "")
        self._starting_chunks.discard(command.chunk_id)
        self.has_news = True
        self._pass_on_pause(child_id_of_command(command.chunk_id))
        try:
            return cast("LoopEnd", await child)
        finally:
            self._chunks.discard(command.chunk_id)

    def is_sender_known(self, fact: Fact) -> bool:
        """Return False for a message of a chunk that this run does not have.

        After a reset the server delivers the messages of the former run's chunks again. A chunk that was replaced takes
        no answer, so a signal for its wait would be lost.
        """
        return not isinstance(fact, WaitOpened | WaitClosed) or fact.sender in ("", *self._chunk_run_ids)

    def is_sender_starting(self, fact: Fact) -> bool:
        """Whether the sender may be a chunk whose start is not known yet: the SDK delivers signals before starts."""
        return bool(self._starting_chunks) and not self.is_sender_known(fact)

    def _pause_children(self, command: PauseChildren) -> None:
        """Notify the chunks and called playbooks. Frames are activities, which Temporal pauses (paused_calls.py)."""
        notice = PauseNotice(command.is_paused, command.by, command.reason)
        self._pause = notice if command.is_paused else None
        self._sub_playbooks.pause(is_paused=command.is_paused)
        for workflow_id in [*map(child_id_of_command, sorted(self._chunks)), *self._sub_playbooks.in_flight]:
            self.messages.send_pause(workflow_id, notice)

    def repeat_pause(self, pause: Pause | None) -> None:
        """Notify all chunks whether the run is paused. Called playbooks are not notified: they can be resumed
        separately.
        """
        notice = PauseNotice(is_paused=False) if pause is None else PauseNotice(True, pause.by, pause.reason)
        for chunk_id in sorted(self._chunks):
            self.messages.send_pause(child_id_of_command(chunk_id), notice)

    def _pass_on_pause(self, workflow_id: str) -> None:
        """Notify a child that has just started of the pause, as it could not be notified before."""
        if self._pause is not None:
            self.messages.send_pause(workflow_id, self._pause)

    def terminate_orphans(self, chunk_ids: Iterable[str]) -> None:
        """Terminate the children of the run before a reset, except these chunks and the playbooks that this run waits
        for. The run continues if that fails."""
        child_ids = [*map(child_id_of_command, chunk_ids), *self._sub_playbooks.in_flight]
        task = start_terminating_orphans(child_ids)
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())

    # ---- ends -----------------------------------------------------------------------------------------------------

    def _cancel(self, command: Cancel) -> None:
        unstarted = self._unstarted.pop(command.id, None)
        if unstarted is not None:
            self._starting_chunks.discard(command.id)
        if isinstance(unstarted, CallTool):
            self.note(ToolFinished(now(), command.id, _undecided_report("cancelled", "cancelled"), cancelled=True))
        elif isinstance(unstarted, RunChunk):
            report = ChunkReport("cancelled", stats=_all_skipped(unstarted), last_event_ms=unstarted.input.after)
            self.note(ChunkFinished(now(), command.id, report))
        else:
            self._cancel_started(command.id)

    def _cancel_started(self, id_: str) -> None:
        if id_ not in self._tasks:
            return
        if id_ in self._start_workflow_tasks and self._start_workflow_tasks[id_] == _workflow_task():
            self._late_cancels.append(id_)
        elif (child := self._running_child(id_)) is not None:
            cancel_child(child)
        else:
            self._tasks[id_].cancel()

    def _running_child(self, id_: str) -> str | None:
        """Return the workflow id of the chunk or called playbook; None before it has started."""
        return child_id_of_command(id_) if id_ in self._chunks else self._sub_playbooks.running_workflow_id(id_)

    def _track_event_carrier(self, id_: str, task: _Task, make_fact: Callable[[_Task], Fact | None]) -> None:
        """Track the task of a call or loop. Its command carries events, so a cancel must not drop it."""
        self._start_workflow_tasks[id_] = _workflow_task()
        self._track(id_, task, make_fact)

    def _track(self, id_: str, task: _Task, make_fact: Callable[[_Task], Fact | None]) -> None:
        """Add the fact of a task to the inbox when it ends."""
        self._tasks[id_] = task

        def on_done(done: _Task) -> None:
            if self._tasks.get(id_) is task:  # a load that was cancelled may have been started again
                del self._tasks[id_]
                self._start_workflow_tasks.pop(id_, None)
                self._starting_chunks.discard(id_)
            fact = make_fact(done)
            if fact is not None:
                self.note(fact)

        task.add_done_callback(on_done)


def _workflow_task() -> int:
    """Return a number that identifies the current workflow task."""
    return workflow.info().get_current_history_length()


def _tool_fact(call: ToolCall, task: _Task) -> Fact:
    error = None if task.cancelled() else task.exception()
    if task.cancelled() or (error is not None and is_cancelled_exception(error)):
        return ToolFinished(now(), call.id, _undecided_report("cancelled", "cancelled"), cancelled=True)
    if error is not None:
        return ToolFinished(now(), call.id, _report_of(error))
    report: ToolReport = task.result()
    was_cancelled = bool(report.attempts) and report.attempts[-1].status == "cancelled"
    return ToolFinished(now(), call.id, report, was_cancelled)


def _report_of(error: BaseException) -> ToolReport:
    """Return a report for an activity that ended without one, with the records of attempts in its last heartbeat."""
    cause = error.cause if isinstance(error, ActivityError) else error
    if isinstance(cause, TemporalTimeoutError):
        report = _undecided_report("worker_lost", f"no worker finished the call: {cause.message}")
        return msgspec.structs.replace(report, attempts=records_in_details(cause.last_heartbeat_details))
    if isinstance(cause, ApplicationError):
        return _undecided_report(str(cause.type or "internal"), cause.message)
    return _undecided_report("internal", str(cause))


def _undecided_report(kind: str, message: str) -> ToolReport:
    return ToolReport(error_outcome(kind, message), is_decided=False)


def _timer_fact(timer_id: str, task: _Task) -> Fact | None:
    return None if task.cancelled() or task.exception() else TimerFired(now(), timer_id)


def _chunk_fact(command: RunChunk, task: _Task) -> Fact:
    error = None if task.cancelled() else task.exception()
    if task.cancelled() or (error is not None and is_cancelled_exception(error)):
        return ChunkFinished(now(), command.chunk_id, ChunkReport("cancelled", stats=_all_skipped(command)))
    if error is None:
        return ChunkFinished(now(), command.chunk_id, cast("LoopEnd | FrameEnd", task.result()).report)
    cause = error.cause if isinstance(error, ChildWorkflowError | ActivityError) else error
    executor = "workflow" if command.input.frame is None else "frame"
    return ChunkFinished(
        now(), command.chunk_id, _failed_loop_report(command, "loop_lost", f"the loop's {executor}: {cause}")
    )


def _failed_loop_report(command: RunChunk, kind: str, message: str) -> ChunkReport:
    """Return a report for a chunk that ended without one: nothing is known about its items."""
    results: list[Json] = [None] * command.input.size
    return ChunkReport("error", results, _all_skipped(command), failure=error_outcome(kind, message))


def _all_skipped(command: RunChunk) -> dict[str, int]:
    total = command.input.size
    return {"total": total, "success": 0, "failed": 0, "skipped": total}
