"""The two workflows on Temporal: they feed facts to a machine and perform its commands.

They make no decisions: the machine makes every decision, and the performer has every effect, so a replay only has to
repeat the order of facts. Workers run them without the SDK's sandbox; the import contract of the machine and replay
tests ensure that they are deterministic.
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
from noetl_temporal.machine.commands import ChunkInput, Emit, Finish
from noetl_temporal.machine.facts import (
    Answered,
    Decided,
    Restored,
    Signalled,
    Started,
    WaitClosed,
    WaitOpened,
)
from noetl_temporal.machine.loops.cursor import loop_machine
from noetl_temporal.machine.playbook import PlaybookMachine
from noetl_temporal.machine.starting import Observer
from noetl_temporal.machine.waits.refusals import decision_refusal, signal_refusal
from noetl_temporal.messages.control_requests import (
    ClosedWait,
    DecisionRequest,
    ForwardedAnswer,
    OpenedWait,
    OpenWaits,
    PauseNotice,
    SignalRequest,
    requester_refusal,
)
from noetl_temporal.messages.run_input import Playbook, RunInput, RunReport
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
    TRAIL,
    WAITS_QUERY,
    keyword,
)
from noetl_temporal.search_attributes import EXECUTION_ID, STATUS, STEP
from noetl_temporal.workflows.controlled_workflow import ControlledWorkflow, pause_fact, raise_if_refused
from noetl_temporal.workflows.current_workflow import child_id_of, now, with_execution_id
from noetl_temporal.workflows.loop_run import LoopBody, LoopEnd, LoopRun, items_and_scope, join_input
from noetl_temporal.workflows.orphans import ResetInterceptor
from noetl_temporal.workflows.performer import Performer
from noetl_temporal.workflows.steady_time import SteadyTimeInterceptor
from noetl_temporal.workflows.sub_playbooks import Caller
from noetl_temporal.workflows.trail import Trail, TrailInterceptor
from noetl_temporal.workflows.ui_summary import UiSummary
from noetl_temporal.workflows.values_at_start import with_values_of_start
from noetl_temporal.workflows.versioning import continue_as_new_versioning
from noetl_temporal.workflows.workflow_host import WorkflowHost

__all__ = ["WORKFLOWS", "LoopWorkflow", "PlaybookWorkflow", "interceptors"]


@workflow.defn(name=PLAYBOOK_WORKFLOW, sandboxed=False)
class PlaybookWorkflow(ControlledWorkflow):
    """Runs one graph."""

    @workflow.init
    def __init__(self, run_input: RunInput, playbook: Playbook) -> None:
        run_input = with_execution_id(run_input)
        state: dict[str, Any] = run_input.state or {}
        self.trail = Trail()
        self._overview = UiSummary(state.get("overview"))
        self._machine = PlaybookMachine(
            playbook.graph,
            execution_id=run_input.execution_id,
            state=state.get("machine"),
            limit=run_input.limit,
            secrets_key=workflow.info().first_execution_run_id,
        )
        info = workflow.info()
        if run_input.depth and run_input.state is None:
            self._machine.move_slots(UUID(info.first_execution_run_id).int)
        caller = Caller(
            run_input.execution_id, info.workflow_id, playbook.graph.digest, run_input.depth, playbook.calls
        )
        self._performer = Performer(self.trail, run_input.queues, run_input.limit, caller, self._on_emit)
        self._host = WorkflowHost(self._machine, self._performer, run_input.limit, self._show_status)
        self._is_shown_paused = self._machine.is_suspended

    @workflow.run
    async def run(self, run_input: RunInput, playbook: Playbook) -> RunReport:
        """Run the playbook and return its report. A failed playbook fails the workflow with the report, a cancelled one
        cancels it.
        """
        workflow.register_random_seed_callback(self.on_reset)
        if not run_input.execution_id:
            run_input = with_execution_id(run_input)
            _upsert([EXECUTION_ID.value_set(run_input.execution_id)])
        start = Started(now(), run_input.payload, run_input.return_step, run_input.rerun, run_input.stored_payload)
        if run_input.state is None:
            self._host.feed(await with_values_of_start(start, playbook.graph, run_input.limit))
        else:
            self._host.feed(Restored(now()))
        finish = await self._host.drive()
        if finish is None:
            state = {"machine": self._machine.snapshot(), "overview": self._overview.rows}
            after = self._machine.state.ids.last
            rerun = run_input.rerun and msgspec.structs.replace(run_input.rerun, state=None)
            run_input = msgspec.structs.replace(run_input, payload={}, stored_payload={}, rerun=rerun, state=state)
            run_input = msgspec.structs.replace(run_input, after=after, trail=self.trail.take())
            workflow.continue_as_new(
                args=[run_input, playbook], memo={}, initial_versioning_behavior=continue_as_new_versioning()
            )
        return self._end(run_input, finish)

    def observe(self, observer: Observer) -> None:
        """Report each step that is about to start, for a replay of the run (earlier_run.py)."""
        self._machine.observer = observer

    def on_reset(self, seed: int) -> None:
        """Handle a reset. Called when the random seed of the run changes (orphans.py)."""
        self._machine.move_slots(seed)
        self._host.mark_reset()

    def _on_emit(self, emit: Emit) -> None:
        if self._overview.update(emit.event):
            workflow.set_current_details(self._overview.markdown())
        self._show_status()

    def _show_status(self) -> None:
        """Update the status in Temporal's list of runs: paused if the run is paused or holds a step."""
        if self._is_shown_paused != self._machine.is_suspended:
            self._is_shown_paused = self._machine.is_suspended
            status = STATUS.value_set("paused" if self._is_shown_paused else "running")
            workflow.upsert_search_attributes([status])  # pyright: ignore[reportUnknownMemberType] - the SDK's type

    def _end(self, run_input: RunInput, finish: Finish) -> RunReport:
        changes = [STATUS.value_set(finish.status)]
        if finish.failures.cause is not None:
            changes.append(STEP.value_set(keyword(finish.failures.cause.step)))
        _upsert(changes)
        trail = self.trail.take()
        report = RunReport(
            finish.status,
            run_input.execution_id,
            finish.result,
            finish.failures,
            finish.steps,
            started=finish.started,
            trail=trail,
            rerun_of=run_input.rerun.execution_id if run_input.rerun else 0,
            rerun_from=run_input.rerun.step if run_input.rerun else "",
        )
        if finish.status in SUCCEEDED:
            return report
        if finish.status == "failed":
            raise ApplicationError(_failure_message(finish), report, type=PLAYBOOK_FAILED, non_retryable=True)
        if workflow.cancellation_reason() is None:
            raise ApplicationError("cancelled by a signal", report, type=PLAYBOOK_CANCELLED, non_retryable=True)
        workflow.upsert_memo({TRAIL: trail, REPORT_MEMO: msgspec.structs.replace(report, trail=None)})
        raise asyncio.CancelledError

    @workflow.signal(name=CANCEL_SIGNAL, description="Stop the run. If it is already stopping, skip its cleanup.")
    def cancel(self, reason: str = "") -> None:
        """Handle a second request to cancel, as Temporal delivers a cancel only once."""
        self._host.request_cancel(reason)

    @workflow.update(name=SIGNAL_UPDATE, description="Send a signal to a step that waits, or will wait, for its name.")
    def signal(self, request: SignalRequest) -> None:
        """Pass the accepted request to the machine."""
        if self._is_new(request.id):
            self._host.receive_update(Signalled(now(), request.id, request.signal))

    @signal.validator
    def check_signal(self, request: SignalRequest) -> None:
        """Raise ApplicationError with the reason if the request is refused."""
        self._raise_if_busy()
        if self._is_new(request.id):
            problem = signal_refusal(
                self._machine.graph, self._machine.state, request.signal, self._host.unapplied_facts
            )
            raise_if_refused(problem)

    @workflow.update(name=DECIDE_UPDATE, description="Approve or reject what a step waits for.")
    def decide(self, request: DecisionRequest) -> None:
        """Pass the accepted request to the machine."""
        if self._is_new(request.id):
            self._host.receive_update(_decision_fact(request))

    @decide.validator
    def check_decision(self, request: DecisionRequest) -> None:
        """Raise ApplicationError with the reason if the request is refused."""
        self._raise_if_busy()
        if self._is_new(request.id):
            raise_if_refused(requester_refusal(request.by, request.reason))
            raise_if_refused(decision_refusal(self._machine.state, _decision_fact(request), self._host.unapplied_facts))

    @workflow.signal(name=OPEN_SIGNAL, description="An item of a loop has started to wait.")
    def wait_opened(self, message: OpenedWait) -> None:
        """Handle the message of a chunk of a loop."""
        self._host.receive(WaitOpened(now(), message.wait, message.sender))

    @workflow.signal(name=CLOSE_SIGNAL, description="An item of a loop has stopped waiting.")
    def wait_closed(self, message: ClosedWait) -> None:
        """Handle the message of a chunk of a loop."""
        wait_id, is_answered, returned = message.wait_id, message.is_answered, message.returned
        self._host.receive(WaitClosed(now(), wait_id, is_answered, returned, message.request, message.sender))

    @workflow.query(name=WAITS_QUERY)
    def open_waits(self) -> OpenWaits:
        """Return what the run waits for."""
        return OpenWaits.from_state(self._machine.state)

    @workflow.query
    def progress(self) -> Json:
        """Return the steps so far: name -> {status, ...}."""
        return self._overview.rows

    @workflow.query
    def state(self) -> Json:
        """Return the machine's state."""
        return self._machine.snapshot()


def _upsert(changes: Sequence[SearchAttributeUpdate[Any]]) -> None:
    workflow.upsert_search_attributes(changes)  # pyright: ignore[reportUnknownMemberType] - the SDK's type


def _decision_fact(request: DecisionRequest) -> Decided:
    return Decided(now(), request.id, request.wait_id, request.approved, request.by, request.reason, request.form)


def _failure_message(finish: Finish) -> str:
    cause, more = finish.failures.cause, finish.failures.unhandled - 1
    if cause is None:
        return finish.status
    message = f"{cause.file}:{cause.line}:{cause.col}: step {cause.step!r} failed: {cause.message}"
    return f"{message} (and {more:,} more)" if more else message


@workflow.defn(name=LOOP_WORKFLOW, sandboxed=False)
class LoopWorkflow:
    """Runs a chunk of a loop."""

    @workflow.init
    def __init__(self, loop_run: LoopRun, body: LoopBody, items: list[Any], scope: dict[str, Any]) -> None:
        state: dict[str, Any] = loop_run.state or {}
        self.trail = Trail()
        input_ = join_input(loop_run.input, body, items, scope)
        self._machine = loop_machine(input_, state.get("machine"), limit=loop_run.limit)
        caller = Caller(loop_run.input.execution_id, _loop_workflow_id(input_), body.caller, loop_run.depth, body.calls)
        self._performer = Performer(self.trail, loop_run.queues, loop_run.limit, caller, lambda _emit: None)
        self._host = WorkflowHost(self._machine, self._performer, loop_run.limit)

    @workflow.run
    async def run(self, loop_run: LoopRun, body: LoopBody, items: list[Any], scope: dict[str, Any]) -> LoopEnd:
        """Run the chunk. The workflow succeeds even if iterations fail; their outcomes are in the report."""
        workflow.register_random_seed_callback(self.on_reset)
        self._host.feed(Started(now()) if loop_run.state is None else Restored(now()))
        finish = await self._host.drive()
        if finish is None or self._machine.report is None:
            state = {"machine": self._machine.snapshot()}
            after = self._machine.state.ids.last
            loop_run = msgspec.structs.replace(loop_run, state=state, after=after, trail=self.trail.take())
            workflow.continue_as_new(args=[loop_run, body, *items_and_scope(loop_run.input, items, scope)])
        await self._return_answers()
        return LoopEnd(self._machine.report, self.trail.take())

    def on_reset(self, _seed: int) -> None:
        """Called when the server reseeds the run, which it does after a reset (orphans.py)."""
        self._host.mark_reset()

    async def _return_answers(self) -> None:
        """Return the answers that arrived too late for this chunk to the playbook, as another wait may take them."""
        while late_answers := [fact for fact in self._host.unapplied_facts if isinstance(fact, Answered)]:
            self._performer.inbox.clear()
            for fact in late_answers:
                for message in self._machine.return_answer(fact):
                    self._performer.messages.notify_playbook(message)
            await self._performer.wait_until_recorded()

    @workflow.signal(name=ANSWER_SIGNAL, description="The playbook's answer to a wait of this loop.")
    def answer(self, message: ForwardedAnswer) -> None:
        """Handle a signal for an item that waits, or a decision about one or several items."""
        self._host.receive(Answered(now(), message.wait_ids, message.answer))

    @workflow.signal(name=PAUSE_SIGNAL, description="The playbook of this loop was paused or resumed.")
    def playbook_paused(self, notice: PauseNotice) -> None:
        """Handle the notice of this loop's playbook."""
        self._host.receive(pause_fact(notice))

    @workflow.query
    def state(self) -> Json:
        """Return the machine's state."""
        return self._machine.snapshot()


def _loop_workflow_id(chunk: ChunkInput) -> str:
    """Return the workflow id of the loop's first chunk, so that ids do not depend on which chunk has an item."""
    info = workflow.info()
    return info.workflow_id if info.parent is None else child_id_of(info.parent.workflow_id, chunk.loop_id)


WORKFLOWS: Sequence[type] = (PlaybookWorkflow, LoopWorkflow)


def interceptors() -> list[Interceptor]:
    """Return the interceptors that the workflows need, in every worker and in every replay."""
    return [TrailInterceptor(), SteadyTimeInterceptor(), ResetInterceptor()]
