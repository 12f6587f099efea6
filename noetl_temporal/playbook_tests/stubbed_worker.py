"""A worker whose activities return the stubs of tests, and which records the events of each run.

A stub that takes time delays the next attempt of its activity instead, because the test server skips delays between
attempts, but not the time of running activities. Both attempts count as one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, TypeAlias, cast

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.worker import (
    ExecuteWorkflowInput,
    Interceptor,
    Worker,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

from noetl_activities.call_summary import call_summary
from noetl_compiler.language.error_kinds import is_retryable
from noetl_compiler.playbook_tests import Stub, StubError
from noetl_temporal.calls.call_log import CallLog
from noetl_temporal.calls.tool_outcome import timeout_message
from noetl_temporal.machine.call import ToolCall, ToolReport
from noetl_temporal.machine.domain import DomainEvent
from noetl_temporal.naming import activity_type
from noetl_temporal.playbook_tests.host import TrialCall, TrialRun
from noetl_temporal.playbook_tests.stubs import NoStubError, StubbedWorld
from noetl_temporal.search_attributes import EXECUTION_ID
from noetl_temporal.worker import shared_worker
from noetl_temporal.worker_options import WorkerOptions
from noetl_temporal.workflows.trail import WorkflowWithTrail

__all__ = ["StubbedRun", "StubbedRuns", "stubbed_worker"]

EARLY_SECONDS = 0.5
"""An attempt that starts more than this before it is due is delayed again.

The server starts an activity that waits for its next attempt whenever its clock is moved, even to an earlier time.
"""

_Call: TypeAlias = tuple[str | None, str, float]
"""The workflow id, the activity id, and the time at which the activity was scheduled."""


@dataclass
class StubbedRun:
    """The run of one test.

    ``missing_stub`` is the error of the first call without a stub. ``delays`` has the start of each delay in
    milliseconds since the epoch, and its seconds. ``deliveries`` counts the activities that workers received.
    """

    world: StubbedWorld
    run: TrialRun
    missing_stub: NoStubError | None = None
    deliveries: int = 0
    delays: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    _calls: dict[_Call, _StubbedCall] = field(default_factory=dict[_Call, "_StubbedCall"])

    async def attempt(self, call: ToolCall) -> ToolReport:
        """Run one attempt of a call in this activity."""
        self.deliveries += 1
        info = activity.info()
        key = info.workflow_id, info.activity_id, info.scheduled_time.timestamp()
        stubbed_call = self._calls.get(key)
        if stubbed_call is None:
            stubbed_call = self._calls[key] = _StubbedCall(TrialCall(call))
            self.run.calls.append(stubbed_call.trial_call)
        now = info.started_time.timestamp()
        if stubbed_call.due - now > EARLY_SECONDS:
            raise _delay_error(stubbed_call.due - now)
        try:
            stubbed_call.trial_call.report = await stubbed_call.attempt(call, self.world)
        except NoStubError as missing:
            self.missing_stub = self.missing_stub or missing
            raise ApplicationError(str(missing), type="no_stub", non_retryable=True) from missing
        except _StubDelay as stub_time:
            stubbed_call.due = now + stub_time.seconds
            raise _delay_error(stub_time.seconds) from None
        except ApplicationError as retry:
            delay = retry.next_retry_delay or timedelta()
            stubbed_call.due = now + delay.total_seconds()
            self.delays.append((now * 1000, delay.total_seconds()))
            raise
        return stubbed_call.trial_call.report


def _delay_error(seconds: float) -> ApplicationError:
    return ApplicationError("not yet", next_retry_delay=timedelta(seconds=seconds))


StubbedRuns: TypeAlias = dict[int, StubbedRun]
"""The runs that have a stubbed worker, by execution id."""


class _StubDelay(Exception):  # noqa: N818 - it is no error
    """The stub returns after ``seconds``."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds


@dataclass
class _StubbedCall:
    """A call and its attempts so far.

    ``delayed_stub`` is the stub whose time has not passed yet. ``due`` is the time at which the next attempt may begin,
    in seconds since the epoch.
    """

    trial_call: TrialCall
    log: CallLog = field(default_factory=CallLog)
    delayed_stub: Stub | None = None
    due: float = 0.0

    async def attempt(self, call: ToolCall, world: StubbedWorld) -> ToolReport:
        stub, self.delayed_stub = self.delayed_stub, None
        if stub is None:
            self.log.begin_attempt()
            self.trial_call.attempts += 1
            stub = world.choose_stub(call, self.log.attempt_number)
            if stub is not None and stub.takes:
                await world.requests.wait_until_sent(call.step)
                self.delayed_stub, seconds = _with_timeout(stub, call, world)
                raise _StubDelay(seconds)
        return await world.attempt_with(stub, call, self.log).run()


def _with_timeout(stub: Stub, call: ToolCall, world: StubbedWorld) -> tuple[Stub, float]:
    """Return the stub with which the attempt ends, and its time: that of the stub, or the timeout of the call if
    shorter.
    """
    limit = world.tools[call.kind].timeout if call.timeout is None else call.timeout
    if limit is None or stub.takes < limit:
        return replace(stub, takes=0.0), stub.takes
    error = StubError(
        timeout_message(call_summary(call.kind, call.config), limit), "timeout", retryable=is_retryable("timeout", None)
    )
    return replace(stub, takes=0.0, result=None, rows=None, http=None, error=error), limit


# ---- the worker ------------------------------------------------------------------------------------------------------


def stubbed_worker(client: Client, runs: StubbedRuns, kinds: Mapping[str, Any]) -> Worker:
    """Return a worker of these runs, and of these kinds of tools."""
    activities = {kind: _activity(kind, runs) for kind in kinds}
    return shared_worker(client, activities, [], WorkerOptions(interceptors=[_EventRecorder(runs)]))


def _activity(kind: str, runs: StubbedRuns) -> Callable[..., Any]:
    @activity.defn(name=activity_type(kind))
    async def attempt(call: ToolCall) -> ToolReport:
        return await runs[call.execution_id].attempt(call)

    return attempt


class _EventRecorder(Interceptor):
    """Adds the events of each workflow to the run of its test as they happen."""

    def __init__(self, runs: StubbedRuns) -> None:
        self._runs = runs

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,  # noqa: A002 - the base class names it so
    ) -> type[WorkflowInboundInterceptor]:
        """See temporalio.worker.Interceptor."""
        del input
        runs = self._runs

        class RecordedWorkflow(WorkflowInboundInterceptor):
            async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:  # noqa: A002
                trial = runs.get(workflow.info().typed_search_attributes.get(EXECUTION_ID) or 0)
                if trial is not None:
                    cast("WorkflowWithTrail", workflow.instance()).trail.on_event = _recorder(trial.run)
                return await super().execute_workflow(input)

        return RecordedWorkflow


def _recorder(run: TrialRun) -> Callable[[DomainEvent], None]:
    def record(event: DomainEvent) -> None:
        if not workflow.unsafe.is_replaying():
            run.events.append(event)

    return record
