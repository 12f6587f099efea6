"""The shell on Temporal: two workflows that perform what a machine commands and feed it what happened.

They decide nothing. Every decision is the machine's, every effect the performer's, so what replays is: the order of
facts. Workers run them unsandboxed (architecture.md 5); determinism is held by the machine's import law and by replay
tests.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from temporalio import workflow
from temporalio.exceptions import ApplicationError

from noetl_compiler.graph import Json
from noetl_temporal.loop_run import LoopEnd, LoopRun
from noetl_temporal.machine.commands import Emit, Finish
from noetl_temporal.machine.events import CancelRequested, Started
from noetl_temporal.machine.loops.loop import LoopMachine
from noetl_temporal.machine.playbook import Machine
from noetl_temporal.naming import LOOP_WORKFLOW, PLAYBOOK_WORKFLOW, STATUS, STEP
from noetl_temporal.overview import Overview
from noetl_temporal.performer import Performer
from noetl_temporal.run_input import RunInput, RunReport
from noetl_temporal.trail import HEADER, Trail

__all__ = ["LoopWorkflow", "PlaybookWorkflow"]

LOOP_EVENTS = 2_000
"""History events after which a loop continues as new (temporal.md 0)."""


async def _drive(machine: Machine | LoopMachine, performer: Performer, limit: int | None) -> Finish | None:
    """Feed facts until the machine finishes; None when the run is to continue as new."""
    while performer.finish is None:
        if not performer.inbox:
            if performer.holding and performer.is_idle:
                return None
            try:
                await workflow.wait_condition(
                    lambda: bool(performer.inbox) or (performer.holding and performer.is_idle)
                )
            except asyncio.CancelledError:
                reason = workflow.cancellation_reason() or ""
                performer.perform(machine.feed(CancelRequested(int(workflow.time() * 1000), reason)))
                continue
        performer.holding = performer.holding or _is_long(limit)
        while performer.inbox and performer.finish is None:
            performer.perform(machine.feed(performer.inbox.popleft()))
    return performer.finish


def _is_long(limit: int | None) -> bool:
    info = workflow.info()
    return info.is_continue_as_new_suggested() or (limit is not None and info.get_current_history_length() > limit)


@workflow.defn(name=PLAYBOOK_WORKFLOW, sandboxed=False)
class PlaybookWorkflow:
    """Runs one graph."""

    def __init__(self) -> None:
        self.trail = Trail()
        self._overview = Overview()
        self._machine: Machine | None = None

    @workflow.run
    async def run(self, given: RunInput) -> RunReport:
        """Returns the report of a completed playbook; a failed one fails the workflow with it, a cancelled one
        cancels it.
        """
        state: dict[str, Any] = given.state or {}
        machine = self._machine = Machine(given.graph, execution_id=given.execution_id, state=state.get("machine"))
        performer = Performer(self.trail, given.queues, self._emitted)
        if given.state is None:
            performer.perform(machine.feed(Started(int(workflow.time() * 1000), given.payload)))
        else:
            self._overview.restore(state["overview"])
            performer.resume(state["held"])
        finish = await _drive(machine, performer, None)
        if finish is None:
            kept = {"machine": machine.snapshot(), "held": performer.kept(), "overview": self._overview.rows}
            workflow.continue_as_new(msgspec.structs.replace(given, state=kept, trail=self.trail.take()))
        return self._end(given, finish)

    def _emitted(self, emit: Emit) -> None:
        if self._overview.take(emit.event):
            workflow.set_current_details(self._overview.markdown())

    def _end(self, given: RunInput, finish: Finish) -> RunReport:
        unhandled = [failure for failure in finish.failures if not failure.handled]
        changes = [STATUS.value_set(finish.status)]
        if unhandled:
            changes.append(STEP.value_set(unhandled[0].step))
        workflow.upsert_search_attributes(changes)  # pyright: ignore[reportUnknownMemberType] - the SDK's type
        report = RunReport(
            finish.status, given.execution_id, finish.result, finish.failures, finish.steps, self.trail.take()
        )
        if finish.status == "completed":
            return report
        if finish.status == "cancelled":
            workflow.upsert_memo({HEADER: report.trail})
            raise asyncio.CancelledError
        raise ApplicationError(_why(finish), report, type="PlaybookFailed", non_retryable=True)

    @workflow.query
    def progress(self) -> Json:
        """Steps so far: name -> {status, ...}."""
        return self._overview.rows

    @workflow.query
    def state(self) -> Json:
        """The machine's state."""
        return self._machine.snapshot() if self._machine else None


def _why(finish: Finish) -> str:
    failure = next(failure for failure in finish.failures if not failure.handled)
    return f"{failure.file}:{failure.line}:{failure.col}: step {failure.step!r} failed: {failure.message}"


@workflow.defn(name=LOOP_WORKFLOW, sandboxed=False)
class LoopWorkflow:
    """Runs the iterations of one loop step."""

    def __init__(self) -> None:
        self.trail = Trail()

    @workflow.run
    async def run(self, given: LoopRun) -> LoopEnd:
        """Ends well whatever became of the iterations: the report tells."""
        state: dict[str, Any] = given.state or {}
        machine = LoopMachine(given.input, state.get("machine"))
        performer = Performer(self.trail, given.queues, lambda _emit: None)
        if given.state is None:
            performer.perform(machine.feed(Started(int(workflow.time() * 1000))))
        else:
            performer.resume(state["held"])
        finish = await _drive(machine, performer, LOOP_EVENTS)
        if finish is None or machine.report is None:
            kept = {"machine": machine.snapshot(), "held": performer.kept()}
            workflow.continue_as_new(msgspec.structs.replace(given, state=kept, trail=self.trail.take()))
        return LoopEnd(machine.report, self.trail.take())
