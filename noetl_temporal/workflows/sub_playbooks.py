"""Performs the calls of playbooks: each is a child workflow with its own execution id (semantics.md 27).

The playbook is one of those that were pinned when the run was submitted. Their graphs are part of the workflow's
input, so every replay resolves a path that is a template in the same way. The digest is in the child's input.

The ids of a child depend only on those of its call, and not on the chunk or run that makes the call: a call that is
repeated after a reset is the same execution, whose calls find their outcomes in the ledger (dev/decisions/0086).

The child reports its outcome. The machine applies the rules, and a retry is another child with other ids. A child that
is waited for is cancelled when its caller stops, and the caller waits for its end, so that its cleanup is finished
before that of its caller begins. With ``wait: false`` the call has ended when the child has started.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, TypeAlias

import msgspec
from temporalio import workflow
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import (
    ApplicationError,
    ChildWorkflowError,
    TerminatedError,
    WorkflowAlreadyStartedError,
    is_cancelled_exception,
)
from temporalio.exceptions import (
    TimeoutError as TemporalTimeoutError,
)

from noetl_compiler.diagnostics import did_you_mean
from noetl_compiler.graph import Json
from noetl_compiler.graph.pinned import PinnedCalls, PinnedPlaybook
from noetl_compiler.language.defaults import MAX_CALL_DEPTH
from noetl_temporal.ids import called_execution_id
from noetl_temporal.machine.call import PlainOutcome, ToolCall, ToolReport
from noetl_temporal.machine.facts import Fact, ToolFinished
from noetl_temporal.machine.failures import error_outcome
from noetl_temporal.messages.run_input import Playbook, RunInput, RunReport
from noetl_temporal.naming import DETACHED_MEMO, PLAYBOOK_CANCELLED, PLAYBOOK_FAILED, PLAYBOOK_WORKFLOW
from noetl_temporal.search_attributes import attributes_of_run
from noetl_temporal.workflows.current_workflow import cancel_child, child_id_of, now
from noetl_temporal.workflows.priorities import priority_of
from noetl_temporal.workflows.ui_summary import playbook_details, playbook_summary

__all__ = ["Caller", "SubPlaybooks", "called_run_info", "failure_outcome", "playbook_fact"]

_Child: TypeAlias = workflow.ChildWorkflowHandle[Any, RunReport]
_FAILURE_PREFIX = "the playbook "
"""The beginning of the message of a failed call."""

_FALSE_STRINGS = ("", "0", "false", "no", "off")


class Caller(NamedTuple):
    """The run that calls playbooks: its execution id, the digest of its graph, its ``depth`` in calls below the
    submitted run, and the playbooks that it may call. The ids of the called workflows begin with ``workflow_id``.
    """

    execution_id: int
    workflow_id: str
    digest: str
    depth: int
    calls: PinnedCalls


class _CannotCallError(Exception):
    """The playbook cannot be called. ``outcome`` is that of the call."""

    def __init__(self, outcome: PlainOutcome) -> None:
        super().__init__()
        self.outcome = outcome


class SubPlaybooks:
    """The playbooks that one workflow calls. ``limit`` is the maximum size of a value in bytes. ``on_started`` is
    called with the id of each workflow that is waited for, when it has started.
    """

    def __init__(
        self, caller: Caller, queues: Mapping[str, str], limit: int, on_started: Callable[[str], None]
    ) -> None:
        self._caller = caller
        self._queues = dict(queues)
        self._limit = limit
        self._on_started = on_started
        self._timeouts: dict[str, _Timeout] = {}
        self._is_paused = False

    @property
    def in_flight(self) -> Collection[str]:
        """The ids of the workflows that are waited for, sorted."""
        return sorted(self._timeouts)

    def running_workflow_id(self, call_id: str) -> str | None:
        """Return the id of the workflow that the call waits for; None before it has started."""
        workflow_id = child_id_of(self._caller.workflow_id, call_id)
        return workflow_id if workflow_id in self._timeouts else None

    def pause(self, *, is_paused: bool) -> None:
        """Pause or resume the timeouts of the calls."""
        self._is_paused = is_paused
        for timeout in self._timeouts.values():
            if is_paused:
                timeout.stop()
            else:
                timeout.start()

    def start(self, call: ToolCall) -> asyncio.Task[ToolReport]:
        """Call a playbook. The task ends with the call. A child that has started must be cancelled with
        ``cancel_child``.
        """
        return asyncio.create_task(self._call(call))

    async def _call(self, call: ToolCall) -> ToolReport:
        try:
            outcome = await self._outcome(call)
        except _CannotCallError as refused:
            outcome = refused.outcome
        return ToolReport(outcome, is_decided=False)

    async def _outcome(self, call: ToolCall) -> PlainOutcome:
        playbook, is_awaited = self._pinned_playbook(call), _is_true(call.config.get("wait", True))
        run_input = self._input(call, playbook)
        workflow_id = child_id_of(self._caller.workflow_id, call.id)
        run_info = called_run_info(run_input, workflow_id)
        if not is_awaited:
            await self._start_detached(workflow_id, run_input, playbook)
            return {"status": "ok", "result": run_info, "meta": run_info}
        child = await self._start_awaited(call, workflow_id, run_input, playbook)
        timeout = self._timeouts[workflow_id] = _Timeout(workflow_id, call.timeout)
        if not self._is_paused:
            timeout.start()
        self._on_started(workflow_id)
        try:
            return await _wait_for_end(child, call, run_info, timeout)
        finally:
            timeout.stop()
            del self._timeouts[workflow_id]

    def _pinned_playbook(self, call: ToolCall) -> PinnedPlaybook:
        path, version = str(call.config.get("path") or ""), str(call.config.get("version") or "")
        if self._caller.depth >= MAX_CALL_DEPTH:
            message = f"playbooks call each other more than {MAX_CALL_DEPTH} deep here, so {path!r} is not called"
            raise _CannotCallError(error_outcome("budget", message))
        playbook = self._caller.calls.find(self._caller.digest, path, version)
        if playbook is None:
            name = f"{path!r}{f' in version {version!r}' if version else ''}"
            hint = did_you_mean(path, self._caller.calls.paths)
            message = f"no playbook {name} was submitted with this run{f': {hint}' if hint else ''}"
            raise _CannotCallError(error_outcome("not_found", message))
        if problem := self._caller.calls.problems.get(playbook.graph.digest):
            raise _CannotCallError(error_outcome("config", f"the playbook {path!r} cannot run here: {problem}"))
        step = _return_step(call)
        if step and step not in playbook.graph.steps:
            hint = did_you_mean(step, playbook.graph.steps)
            message = f"the playbook {path!r} has no step {step!r} to return{f': {hint}' if hint else ''}"
            raise _CannotCallError(error_outcome("config", message))
        return playbook

    def _input(self, call: ToolCall, playbook: PinnedPlaybook) -> RunInput:
        """Return the input of the child workflow, whose payload and stored values are the input of the call."""
        graph = playbook.graph
        return RunInput(
            called_execution_id(self._caller.execution_id, call.key),
            graph.source.path,
            graph.source.version,
            graph.digest,
            payload=call.input,
            stored_payload=call.stored_input,
            queues=self._queues,
            parent_execution_id=self._caller.execution_id,
            depth=self._caller.depth + 1,
            return_step=_return_step(call),
            limit=self._limit,
        )

    async def _start_detached(self, workflow_id: str, run_input: RunInput, playbook: PinnedPlaybook) -> None:
        """Start a child that may outlive its caller, unless the caller started it before a reset."""
        policy = WorkflowIDReusePolicy.REJECT_DUPLICATE
        memo = {DETACHED_MEMO: True}
        try:
            child = await self._start(
                workflow_id, run_input, playbook, policy, workflow.ParentClosePolicy.ABANDON, memo=memo
            )
        except WorkflowAlreadyStartedError:
            return
        child.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def _start_awaited(
        self, call: ToolCall, workflow_id: str, run_input: RunInput, playbook: PinnedPlaybook
    ) -> _Child:
        """Start a child that is waited for. If the caller started it before a reset, it is replaced; if the call must
        not be repeated, its outcome is unknown.
        """
        policy = (
            WorkflowIDReusePolicy.TERMINATE_IF_RUNNING if call.idempotent else WorkflowIDReusePolicy.REJECT_DUPLICATE
        )
        try:
            return await self._start(
                workflow_id, run_input, playbook, policy, workflow.ParentClosePolicy.REQUEST_CANCEL
            )
        except WorkflowAlreadyStartedError:
            message = (
                f"the playbook {run_input.path!r} was called before a reset of its caller, and must not be called again"
            )
            raise _CannotCallError(error_outcome("unknown_outcome", message)) from None

    async def _start(
        self,
        workflow_id: str,
        run_input: RunInput,
        playbook: PinnedPlaybook,
        reuse_policy: WorkflowIDReusePolicy,
        close_policy: workflow.ParentClosePolicy,
        memo: Mapping[str, Any] | None = None,
    ) -> _Child:
        return await workflow.start_child_workflow(
            PLAYBOOK_WORKFLOW,
            args=[run_input, Playbook(playbook.graph, playbook.content, self._caller.calls)],
            id=workflow_id,
            id_reuse_policy=reuse_policy,
            result_type=RunReport,
            parent_close_policy=close_policy,
            cancellation_type=workflow.ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
            memo=memo,
            search_attributes=attributes_of_run(run_input.path, run_input.version, run_input.execution_id),
            static_summary=playbook_summary(playbook.graph),
            static_details=playbook_details(playbook.graph),
            priority=priority_of(playbook.graph),
        )


async def _wait_for_end(child: _Child, call: ToolCall, run_info: dict[str, Json], timer: _Timeout) -> PlainOutcome:
    """Return the outcome of a child, also of one that its timeout has cancelled. Raises ChildWorkflowError if it was
    cancelled for another reason.
    """
    try:
        return {"status": "ok", "result": (await child).result, "meta": run_info}
    except ChildWorkflowError as error:
        if timer.has_passed:
            return {**error_outcome("timeout", f"timed out after {call.timeout:g} s"), "meta": run_info}
        if is_cancelled_exception(error) or _type_of(error) == PLAYBOOK_CANCELLED:
            raise
        return {**failure_outcome(call.config["path"], error.cause), "meta": run_info}


class _Timeout:
    """Cancels a child after its timeout. Time in which the caller, and so the child, is paused does not count."""

    def __init__(self, workflow_id: str, seconds: float | None) -> None:
        self._workflow_id = workflow_id
        self.has_passed = False
        self._remaining_seconds = seconds
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start or resume the timer."""
        if self._remaining_seconds is not None and self._timer is None and not self.has_passed:
            self._timer = asyncio.get_running_loop().call_later(self._remaining_seconds, self._cancel_after_timeout)

    def stop(self) -> None:
        """Pause the timer."""
        if self._timer is not None:
            self._remaining_seconds = max(0.0, self._timer.when() - asyncio.get_running_loop().time())
            self._timer.cancel()
            self._timer = None

    def _cancel_after_timeout(self) -> None:
        self.has_passed, self._timer = True, None
        cancel_child(self._workflow_id)


def failure_outcome(path: str, cause: BaseException | None) -> PlainOutcome:
    """Return the outcome of a call whose child failed with this ``cause``. Its kind is that of the child's first
    unhandled failure. In nested calls, the message is that of the innermost one.
    """
    if isinstance(cause, TemporalTimeoutError):
        return error_outcome("timeout", f"the playbook {path!r} timed out")
    if isinstance(cause, TerminatedError):
        return error_outcome("cancelled", f"the playbook {path!r} was terminated")
    if not isinstance(cause, ApplicationError):
        return error_outcome("internal", f"{_FAILURE_PREFIX}{path!r} failed: {cause}")
    report = msgspec.convert(cause.details[0], RunReport) if cause.type == PLAYBOOK_FAILED else None
    failure = None if report is None else report.failures.cause
    if failure is None:
        return error_outcome("internal", f"{_FAILURE_PREFIX}{path!r} failed: {cause.message}")
    is_from_called_playbook = failure.message.startswith(_FAILURE_PREFIX)
    message = failure.message if is_from_called_playbook else f"{_FAILURE_PREFIX}{path!r} failed: {cause.message}"
    return error_outcome(failure.kind or "internal", message)


def _type_of(error: ChildWorkflowError) -> str | None:
    return error.cause.type if isinstance(error.cause, ApplicationError) else None


def called_run_info(run_input: RunInput, workflow_id: str) -> dict[str, Json]:
    """Return the data of a started run that its caller sees. Ids are strings, because they exceed 2^53."""
    return {
        "execution_id": str(run_input.execution_id),
        "workflow_id": workflow_id,
        "path": run_input.path,
        "version": run_input.version,
    }


def _return_step(call: ToolCall) -> str:
    return str(call.config.get("return_step") or call.config.get("result_step") or "")


def _is_true(value: Json) -> bool:
    return value.strip().lower() not in _FALSE_STRINGS if isinstance(value, str) else bool(value)


def playbook_fact(call: ToolCall, task: asyncio.Task[ToolReport]) -> Fact:
    """Return the fact for a call that has ended."""
    error = None if task.cancelled() else task.exception()
    if task.cancelled() or (error is not None and is_cancelled_exception(error)) or _was_cancelled(error):
        report = ToolReport(error_outcome("cancelled", "cancelled"), is_decided=False)
        return ToolFinished(now(), call.id, report, cancelled=True)
    if error is not None:
        return ToolFinished(now(), call.id, ToolReport(error_outcome("internal", str(error)), is_decided=False))
    return ToolFinished(now(), call.id, task.result())


def _was_cancelled(error: BaseException | None) -> bool:
    """Whether the child was cancelled by a signal, which ends it as failed."""
    return isinstance(error, ChildWorkflowError) and _type_of(error) == PLAYBOOK_CANCELLED
