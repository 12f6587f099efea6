"""The shell on Temporal: two workflows that perform what a machine commands and feed it what happened.

They decide nothing. Every decision is the machine's, every effect the performer's, so what replays is: the order of
facts. Workers run them unsandboxed; determinism is held by the machine's import law and by replay
tests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec
from temporalio import workflow
from temporalio.common import SearchAttributeUpdate
from temporalio.exceptions import ApplicationError
from temporalio.worker import Interceptor

from noetl_compiler.graph import Json
from noetl_temporal.control_requests import (
    ClosedWait,
    DecisionRequest,
    HandedAnswer,
    OpenedWait,
    OpenWaits,
    PauseNotice,
    SignalRequest,
    text_problem,
)
from noetl_temporal.controlled_workflow import ControlledWorkflow, fact_of_pause, refuse
from noetl_temporal.loop_run import LoopBody, LoopEnd, LoopRun, items_and_scope, joined
from noetl_temporal.machine.commands import ChunkInput, Emit, Finish
from noetl_temporal.machine.events import (
    Answered,
    Decided,
    Resumed,
    Signalled,
    Started,
    WaitClosed,
    WaitOpened,
)
from noetl_temporal.machine.loops.cursor import loop_machine
from noetl_temporal.machine.playbook import Machine
from noetl_temporal.machine.starting import Observer
from noetl_temporal.machine.waits.refusals import decision_problem, signal_problem
from noetl_temporal.naming import (
    ANSWER_SIGNAL,
    CANCEL_SIGNAL,
    CLOSE_SIGNAL,
    DECIDE_UPDATE,
    LOOP_WORKFLOW,
    OPEN_SIGNAL,
    PAUSE_SIGNAL,
    PLAYBOOK_CANCELLED,
    PLAYBOOK_FAILED,
    PLAYBOOK_WORKFLOW,
    REPORT_MEMO,
    SIGNAL_UPDATE,
    SUCCEEDED,
    WAITS_QUERY,
    keyword,
)
from noetl_temporal.orphans import ResetInterceptor
from noetl_temporal.own_workflow import child_id_below, identified, now
from noetl_temporal.performer import Performer
from noetl_temporal.run_input import Playbook, RunInput, RunReport
from noetl_temporal.search_attributes import EXECUTION_ID, STATUS, STEP
from noetl_temporal.steady_time import SteadyTimeInterceptor
from noetl_temporal.sub_playbooks import Caller
from noetl_temporal.trail import HEADER, Trail, TrailInterceptor
from noetl_temporal.ui_summary import UiSummary
from noetl_temporal.versioning import upgrade
from noetl_temporal.workflow_host import WorkflowHost

__all__ = ["WORKFLOWS", "LoopWorkflow", "PlaybookWorkflow", "interceptors"]


@workflow.defn(name=PLAYBOOK_WORKFLOW, sandboxed=False)
class PlaybookWorkflow(ControlledWorkflow):
    """Runs one graph."""

    @workflow.init
    def __init__(self, given: RunInput, playbook: Playbook) -> None:
        given = identified(given)
        state: dict[str, Any] = given.state or {}
        self.trail = Trail()
        self._overview = UiSummary(state.get("overview"))
        self._machine = Machine(
            playbook.graph,
            execution_id=given.execution_id,
            state=state.get("machine"),
            limit=given.limit,
            secrets_key=workflow.info().first_execution_run_id,
        )
        info = workflow.info()
        if given.depth and given.state is None:
            self._machine.move_slots(UUID(info.first_execution_run_id).int)
        caller = Caller(given.execution_id, info.workflow_id, playbook.graph.digest, given.depth, playbook.calls)
        self._performer = Performer(self.trail, given.queues, given.limit, caller, self._emitted)
        self._host = WorkflowHost(self._machine, self._performer, given.limit, self._show_status)
        self._is_shown_paused = self._machine.is_suspended

    @workflow.run
    async def run(self, given: RunInput, playbook: Playbook) -> RunReport:
        """Run the playbook and return its report. A failed playbook fails the workflow with the report, a cancelled one
        cancels it.
        """
        workflow.register_random_seed_callback(self.on_reset)
        if not given.execution_id:
            given = identified(given)
            _upsert([EXECUTION_ID.value_set(given.execution_id)])
        start = Started(now(), given.payload, given.return_step, given.rerun, given.kept)
        self._host.feed(start if given.state is None else Resumed(now()))
        finish = await self._host.drive()
        if finish is None:
            kept = {"machine": self._machine.snapshot(), "overview": self._overview.rows}
            after = self._machine.state.ids.last
            rerun = given.rerun and msgspec.structs.replace(given.rerun, state=None)
            given = msgspec.structs.replace(given, payload={}, kept={}, rerun=rerun, state=kept)
            given = msgspec.structs.replace(given, after=after, trail=self.trail.take())
            workflow.continue_as_new(args=[given, playbook], memo={}, initial_versioning_behavior=upgrade())
        return self._end(given, finish)

    def observe(self, observer: Observer) -> None:
        """Report each step that is about to start, for a replay of the run (earlier_run.py)."""
        self._machine.observer = observer

    def on_reset(self, seed: int) -> None:
        """Called when the server reseeds the run, which it does after a reset (orphans.py)."""
        self._machine.move_slots(seed)
        self._host.mark_reset()

    def _emitted(self, emit: Emit) -> None:
        if self._overview.take(emit.event):
            workflow.set_current_details(self._overview.markdown())
        self._show_status()

    def _show_status(self) -> None:
        """Show in lists whether the run is paused, or waits for a decision about a held step."""
        if self._is_shown_paused != self._machine.is_suspended:
            self._is_shown_paused = self._machine.is_suspended
            status = STATUS.value_set("paused" if self._is_shown_paused else "running")
            workflow.upsert_search_attributes([status])  # pyright: ignore[reportUnknownMemberType] - the SDK's type

    def _end(self, given: RunInput, finish: Finish) -> RunReport:
        changes = [STATUS.value_set(finish.status)]
        if finish.failures.cause is not None:
            changes.append(STEP.value_set(keyword(finish.failures.cause.step)))
        _upsert(changes)
        trail = self.trail.take()
        report = RunReport(
            finish.status,
            given.execution_id,
            finish.result,
            finish.failures,
            finish.steps,
            started=finish.started,
            trail=trail,
            rerun_of=given.rerun.execution_id if given.rerun else 0,
            rerun_from=given.rerun.step if given.rerun else "",
        )
        if finish.status in SUCCEEDED:
            return report
        if finish.status == "failed":
            raise ApplicationError(_why(finish), report, type=PLAYBOOK_FAILED, non_retryable=True)
        if workflow.cancellation_reason() is None:
            raise ApplicationError("cancelled by a signal", report, type=PLAYBOOK_CANCELLED, non_retryable=True)
        workflow.upsert_memo({HEADER: trail, REPORT_MEMO: msgspec.structs.replace(report, trail=None)})
        raise asyncio.CancelledError

    @workflow.signal(name=CANCEL_SIGNAL, description="Stop the run. If it is already stopping, skip its cleanup.")
    def cancel(self, reason: str = "") -> None:
        """A second request to cancel: Temporal's own is delivered once."""
        self._host.request_cancel(reason)

    @workflow.update(name=SIGNAL_UPDATE, description="Send a signal to a step that waits, or will wait, for its name.")
    def signal(self, request: SignalRequest) -> None:
        """Accepted: the machine takes it with the next facts."""
        if self._is_new(request.id):
            self._host.take_update(Signalled(now(), request.id, request.signal))

    @signal.validator
    def check_signal(self, request: SignalRequest) -> None:
        """Raises ApplicationError with the reason for what cannot be."""
        if self._is_new(request.id):
            problem = signal_problem(self._machine.graph, self._machine.state, request.signal, self._host.unfed)
            refuse(problem)

    @workflow.update(name=DECIDE_UPDATE, description="Approve or reject what a step waits for.")
    def decide(self, request: DecisionRequest) -> None:
        """Accepted: the machine takes it with the next facts."""
        if self._is_new(request.id):
            self._host.take_update(_decided(request))

    @decide.validator
    def check_decision(self, request: DecisionRequest) -> None:
        """Raises ApplicationError with the reason for what cannot be."""
        if self._is_new(request.id):
            refuse(text_problem(request.by, request.reason))
            refuse(decision_problem(self._machine.state, _decided(request), self._host.unfed))

    @workflow.signal(name=OPEN_SIGNAL, description="An item of a loop has started to wait.")
    def wait_opened(self, opened: OpenedWait) -> None:
        """Sent by a chunk of a loop."""
        self._host.take(WaitOpened(now(), opened.wait, opened.sender))

    @workflow.signal(name=CLOSE_SIGNAL, description="An item of a loop has stopped waiting.")
    def wait_closed(self, closed: ClosedWait) -> None:
        """Sent by a chunk of a loop."""
        wait_id, is_answered, returned = closed.wait_id, closed.is_answered, closed.returned
        self._host.take(WaitClosed(now(), wait_id, is_answered, returned, closed.request, closed.sender))

    @workflow.query(name=WAITS_QUERY)
    def open_waits(self) -> OpenWaits:
        """What the run waits for."""
        return OpenWaits.of(self._machine.state)

    @workflow.query
    def progress(self) -> Json:
        """Steps so far: name -> {status, ...}."""
        return self._overview.rows

    @workflow.query
    def state(self) -> Json:
        """The machine's state."""
        return self._machine.snapshot()


def _upsert(changes: Sequence[SearchAttributeUpdate[Any]]) -> None:
    workflow.upsert_search_attributes(changes)  # pyright: ignore[reportUnknownMemberType] - the SDK's type


def _decided(request: DecisionRequest) -> Decided:
    return Decided(now(), request.id, request.wait_id, request.approved, request.by, request.reason, request.form)


def _why(finish: Finish) -> str:
    cause, more = finish.failures.cause, finish.failures.unhandled - 1
    if cause is None:
        return finish.status
    message = f"{cause.file}:{cause.line}:{cause.col}: step {cause.step!r} failed: {cause.message}"
    return f"{message} (and {more:,} more)" if more else message


@workflow.defn(name=LOOP_WORKFLOW, sandboxed=False)
class LoopWorkflow:
    """Runs the iterations of one loop step."""

    @workflow.init
    def __init__(self, given: LoopRun, body: LoopBody, items: list[Any], scope: dict[str, Any]) -> None:
        state: dict[str, Any] = given.state or {}
        self.trail = Trail()
        input_ = joined(given.input, body, items, scope)
        self._machine = loop_machine(input_, state.get("machine"), limit=given.limit)
        caller = Caller(given.input.execution_id, _loop_workflow_id(input_), body.caller, given.depth, body.calls)
        self._performer = Performer(self.trail, given.queues, given.limit, caller, lambda _emit: None)
        self._host = WorkflowHost(self._machine, self._performer, given.limit)

    @workflow.run
    async def run(self, given: LoopRun, body: LoopBody, items: list[Any], scope: dict[str, Any]) -> LoopEnd:
        """Run the chunk. The workflow succeeds even if iterations fail; their outcomes are in the report."""
        self._host.feed(Started(now()) if given.state is None else Resumed(now()))
        finish = await self._host.drive()
        if finish is None or self._machine.report is None:
            kept = {"machine": self._machine.snapshot()}
            after = self._machine.state.ids.last
            given = msgspec.structs.replace(given, state=kept, after=after, trail=self.trail.take())
            workflow.continue_as_new(args=[given, body, *items_and_scope(given.input, items, scope)])
        await self._return_answers()
        return LoopEnd(self._machine.report, self.trail.take())

    async def _return_answers(self) -> None:
        """What came too late for this chunk is another wait's."""
        while late := [fact for fact in self._host.unfed if isinstance(fact, Answered)]:
            self._performer.inbox.clear()
            for fact in late:
                for message in self._machine.returned(fact):
                    self._performer.messages.notify_playbook(message)
            await self._performer.settled()

    @workflow.signal(name=ANSWER_SIGNAL, description="The playbook's answer to a wait of this loop.")
    def answer(self, given: HandedAnswer) -> None:
        """A signal for an item that waits, or a decision for one or several."""
        self._host.take(Answered(now(), given.wait_ids, given.answer))

    @workflow.signal(name=PAUSE_SIGNAL, description="The playbook of this loop was paused or resumed.")
    def playbook_paused(self, notice: PauseNotice) -> None:
        """Sent by the playbook."""
        self._host.take(fact_of_pause(notice))

    @workflow.query
    def state(self) -> Json:
        """The machine's state."""
        return self._machine.snapshot()


def _loop_workflow_id(chunk: ChunkInput) -> str:
    """That of the first chunk of the loop, which is the same whichever chunk has an item."""
    info = workflow.info()
    return info.workflow_id if info.parent is None else child_id_below(info.parent.workflow_id, chunk.loop_id)


WORKFLOWS: Sequence[type] = (PlaybookWorkflow, LoopWorkflow)


def interceptors() -> list[Interceptor]:
    """Those that the workflows need, in every worker and in every replay."""
    return [TrailInterceptor(), SteadyTimeInterceptor(), ResetInterceptor()]
