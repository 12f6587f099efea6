"""The part of a pipeline that begins and ends task executions; pipeline.py decides when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from noetl_compiler.graph import Json, Span
from noetl_compiler.language.tools import PLAYBOOK, WAIT_KINDS
from noetl_temporal.machine.call import PlainOutcome, StoredRef
from noetl_temporal.machine.errors import ProtocolError
from noetl_temporal.machine.failures import error_outcome
from noetl_temporal.machine.policy import allows
from noetl_temporal.machine.state import FOLLOWING_PHASES, PipelinePhase, PipelineState, TaskProgress
from noetl_temporal.machine.stored import with_row
from noetl_temporal.machine.tasks import breaker
from noetl_temporal.machine.tasks.call_input import CallInput
from noetl_temporal.machine.tasks.calls import call_id, store_call, summary, tool_call
from noetl_temporal.machine.tasks.events import emit_ended, emit_started
from noetl_temporal.machine.tasks.failed_line import failure_span
from noetl_temporal.machine.tasks.host import Host
from noetl_temporal.machine.tasks.names import NO_NAMES, PipelineNames
from noetl_temporal.machine.tasks.plan import TaskPlan
from noetl_temporal.machine.tasks.rendering import RenderedTask
from noetl_temporal.machine.tasks.waits import task_wait
from noetl_temporal.machine.waits.wait import Wait

__all__ = ["MAX_EXECUTIONS", "End", "TaskExecutions"]

MAX_EXECUTIONS = 1_000_000
"""Task executions of one pipeline (semantics.md 20)."""


class End(msgspec.Struct, frozen=True):
    """How a pipeline or a run of a step ended. ``task`` is the label of its last task, ``span`` the span of the
    failure. ``guarded_failure`` is the failure of a guarded task that failed after that task. ``attempt`` and ``page``
    are the numbers of the call with this outcome, as the rules of its task saw them.
    """

    status: Literal["ok", "error", "cancelled"]
    outcome: PlainOutcome
    task: str | None
    span: Span
    guarded_failure: End | None = None
    attempt: int = 1
    page: int = 1


class TaskExecutions:
    """The tasks of a pipeline: which is next, its call, and its end.

    ``end`` is set when the pipeline has ended, ``delay`` (in seconds) and ``delay_summary`` when it is in a delay;
    ``opened`` is the wait that began last.
    """

    def __init__(self, host: Host, state: PipelineState) -> None:
        self.host = host
        self.state = state
        self.end: End | None = None
        self.delay = 0.0
        self.delay_summary = ""
        self.opened: Wait | None = None
        self._names = PipelineNames(host, state)
        self._last_id = (0, "")

    def last_kind(self) -> str:
        """Return the tool kind of the pipeline's result; after a failure, that of the response of the failed call."""
        failed = self.end.task if self.end is not None and self.end.status == "error" else None
        last = failed if failed in self.state.records else self.state.last_success
        return self.state.records[last].kind if last is not None else ""

    # ---- the next call ----------------------------------------------------------------------------------------------

    def _begin_task(self) -> None:
        """Call the next task. Raises TemplateFailure."""
        state = self.state
        if not self._find_task():
            self._end_after_last_task()
            return
        state.executions += 1
        if state.executions > MAX_EXECUTIONS:
            self._end("error", error_outcome("budget", f"more than {MAX_EXECUTIONS:,} task executions in one step"))
            return
        self._begin_call(self._plan())

    def _find_task(self) -> bool:
        """Advance to the next task that runs, if one is left. Raises TemplateFailure."""
        state, plans = self.state, self.host.plan.tasks
        while state.index < len(plans) and not self._may_run(plans[state.index]):
            state.index += 1
        return state.index < len(plans)

    def _may_run(self, plan: TaskPlan) -> bool:
        guard, has_failed = plan.task.guard, self.state.failure is not None
        if guard is None:
            return not has_failed
        return allows(guard, "error" if has_failed else "ok", self._names.scope())

    def _begin_call(self, plan: TaskPlan) -> None:
        state, host = self.state, self.host
        progress = state.progress
        stored_input: dict[str, StoredRef] | None = None
        if plan.task.kind == PLAYBOOK:
            call_input = self._names.call_input(plan.task).overridden_by(CallInput(progress.rebound_input, {}))
            (input_, stored_input), input_names = call_input, call_input.names
            names: Mapping[str, Any] = self._names.call_scope(input_names.uncomputed, input_names)
        else:
            input_ = (
                {**self._names.input_names(plan.task), **progress.rebound_input}
                if plan.binds_names
                else progress.rebound_input
            )
            names = self._names.call_scope(input_, input_) if plan.reads_names else NO_NAMES
        rendered = RenderedTask(plan.task, names, input_, progress.config)
        progress.config, progress.is_open, progress.started = rendered.config, True, host.journal.feed.at
        id_ = self._call_id(plan)
        progress.event_id = emit_started(host, state, plan, id_)
        if plan.task.kind in WAIT_KINDS:
            self._begin_wait(task_wait(host, plan, state, rendered))
            return
        call = tool_call(host, plan, state, id_, rendered, names)
        if stored_input:
            call = replace(call, stored_input=stored_input)
        if plan.circuit is not None:
            state.answer = breaker.refusal(host, state, plan, plan.circuit, call.id, names)
            if state.answer is not None:
                self._enter_phase("answered")
                return
        self._enter_phase("call")
        state.pending_id = call.id
        host.journal.add_call(call, plan.task.queue, summary(host, plan, call.page))

    def _begin_wait(self, wait: Wait) -> None:
        self._enter_phase("wait")
        self.state.pending_id, self.opened = wait.id, wait

    def _begin_store(self, plan: TaskPlan) -> None:
        host, state = self.host, self.state
        call = store_call(host, plan, state, self._names.scope(), state.records[plan.task.label].outcome)
        self._enter_phase("call")
        state.pending_id = call.id
        host.journal.add_call(call, call.kind, f"{summary(host, plan, None)} sink")

    def _plan(self) -> TaskPlan:
        return self.host.plan.tasks[self.state.index]

    def _call_id(self, plan: TaskPlan) -> str:
        """Return the id of the current task execution, computed once."""
        number = self.state.executions
        if self._last_id[0] != number:
            self._last_id = number, call_id(self.host, plan, self.state)
        return self._last_id[1]

    def _enter_phase(self, phase: PipelinePhase) -> None:
        if phase not in FOLLOWING_PHASES[self.state.phase]:
            raise ProtocolError(f"a pipeline that is {self.state.phase} cannot become {phase}")
        self.state.phase = phase

    # ---- the end of a task ------------------------------------------------------------------------------------------

    def _task_ended(self, plan: TaskPlan, status: str, outcome: PlainOutcome, pages: Json = None) -> int:
        """End a task execution. Returns the id of its event."""
        self.state.progress.is_open = False
        row = emit_ended(self.host, self.state, plan, self._call_id(plan), status, outcome, pages)
        if status == "COMPLETED":
            record = self.state.records[plan.task.label]
            logged_outcome = with_row(record.outcome, row)
            if logged_outcome is not record.outcome:
                self.state.records[plan.task.label] = replace(record, outcome=logged_outcome)
        return row

    def _next_task(self, stop: bool) -> None:
        """Continue with the next task; with ``stop`` skip all others. If no task is left, the pipeline ends at once."""
        state, count = self.state, len(self.host.step.tasks)
        state.index = count if stop else state.index + 1
        if state.index < count:
            state.progress = TaskProgress()
            self._enter_phase("ready")
        else:
            self._end_after_last_task()

    def _end_after_last_task(self) -> None:
        """End the pipeline, because no task is left."""
        state = self.state
        if state.failure is None:
            self._end("ok", self._last_outcome())
        else:
            state.index, state.progress = state.failed_index, TaskProgress()
            self._end("error", state.failure)

    def _last_outcome(self) -> PlainOutcome:
        last = self.state.last_success
        return self.state.records[last].outcome if last is not None else {"status": "ok", "result": None}

    def _end(
        self, status: Literal["ok", "error", "cancelled"], outcome: PlainOutcome, span: Span | None = None
    ) -> None:
        tasks, state = self.host.step.tasks, self.state
        task = tasks[state.index] if state.index < len(tasks) else None
        self._enter_phase("done")
        state.pending_id = ""
        span = span or (failure_span(task, outcome, state.progress.config) if task else self.host.step.span)
        label = task.label if task else None
        call = state.records.get((state.last_success if status == "ok" else label) or "")
        numbers = (call.attempt, call.page) if call else (1, 1)
        self.end = End(status, outcome, label, span, None, *numbers)
