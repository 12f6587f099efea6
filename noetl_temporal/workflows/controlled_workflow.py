"""The updates with which people control a playbook's workflow: pause, resume, retry and skip.

The validator of an update refuses a request that is not possible. Its handler adds a fact and returns immediately.
"""

from __future__ import annotations

from temporalio import workflow
from temporalio.exceptions import ApplicationError

from noetl_temporal.machine.control import (
    RefusedError,
    find_held_run,
    find_held_runs,
    pause_refusal,
    resume_refusal,
    retry_refusal,
    skip_refusal,
)
from noetl_temporal.machine.facts import PauseRequested, RetryRequested, SkipRequested, UnpauseRequested
from noetl_temporal.machine.held_steps import HeldStep
from noetl_temporal.machine.playbook import PlaybookMachine
from noetl_temporal.machine.waits.refusals import is_repeated
from noetl_temporal.messages.control_requests import (
    DecidedRuns,
    HeldRequest,
    PauseNotice,
    PauseRequest,
    requester_refusal,
)
from noetl_temporal.naming import (
    PAUSE_SIGNAL,
    PAUSE_UPDATE,
    REFUSED_REQUEST,
    RESUME_UPDATE,
    RETRY_UPDATE,
    RUN_BUSY,
    SKIP_UPDATE,
)
from noetl_temporal.workflows.current_workflow import now
from noetl_temporal.workflows.workflow_host import WorkflowHost

__all__ = ["ControlledWorkflow", "pause_fact", "raise_if_refused"]


class ControlledWorkflow:
    """Handles the updates of one run. The base class of the workflow of a playbook."""

    _machine: PlaybookMachine
    _host: WorkflowHost

    @workflow.update(name=PAUSE_UPDATE, description="Pause the run: nothing starts until it is resumed.")
    def pause(self, request: PauseRequest) -> None:
        """Pass the accepted request to the machine."""
        if self._is_new(request.id):
            self._host.receive_update(PauseRequested(now(), request.id, request.by, request.reason))

    @pause.validator
    def check_pause(self, request: PauseRequest) -> None:
        """Raise ApplicationError with the reason if the request is refused."""
        self._raise_if_busy()
        if self._is_new(request.id):
            raise_if_refused(requester_refusal(request.by, request.reason))
            raise_if_refused(pause_refusal(self._machine.state, self._host.unapplied_facts))

    @workflow.update(name=RESUME_UPDATE, description="Resume a paused run.")
    def resume(self, request: PauseRequest) -> None:
        """Pass the accepted request to the machine."""
        if self._is_new(request.id):
            self._host.receive_update(UnpauseRequested(now(), request.id, request.by, request.reason))

    @resume.validator
    def check_resume(self, request: PauseRequest) -> None:
        """Raise ApplicationError with the reason if the request is refused."""
        self._raise_if_busy()
        if self._is_new(request.id):
            raise_if_refused(requester_refusal(request.by, request.reason))
            raise_if_refused(resume_refusal(self._machine.state, self._host.unapplied_facts))

    @workflow.update(name=RETRY_UPDATE, description="Retry a held step.")
    def retry(self, request: HeldRequest) -> DecidedRuns:
        """Pass the accepted request to the machine."""
        if not self._is_new(request.id):
            return DecidedRuns()
        held = self._held_steps(request)
        runs = tuple(step.run for step in held)
        self._host.receive_update(RetryRequested(now(), request.id, runs, request.by, request.reason))
        return DecidedRuns(len(held), held[0].name)

    @retry.validator
    def check_retry(self, request: HeldRequest) -> None:
        """Raise ApplicationError with the reason if the request is refused."""
        self._raise_if_busy()
        if self._is_new(request.id):
            raise_if_refused(requester_refusal(request.by, request.reason))
            raise_if_refused(retry_refusal(self._machine.state, self._host.unapplied_facts))
            self._held_steps(request)

    @workflow.update(name=SKIP_UPDATE, description="Skip a held step, with the given result.")
    def skip(self, request: HeldRequest) -> DecidedRuns:
        """Pass the accepted request to the machine."""
        if not self._is_new(request.id):
            return DecidedRuns()
        held = self._held_steps(request)
        runs = tuple(step.run for step in held)
        self._host.receive_update(SkipRequested(now(), request.id, runs, request.data, request.by, request.reason))
        return DecidedRuns(len(held), held[0].name)

    @skip.validator
    def check_skip(self, request: HeldRequest) -> None:
        """Raise ApplicationError with the reason if the request is refused."""
        self._raise_if_busy()
        if self._is_new(request.id):
            raise_if_refused(requester_refusal(request.by, request.reason))
            raise_if_refused(skip_refusal(request.data, len(self._held_steps(request))))

    def _is_new(self, request_id: int) -> bool:
        return not is_repeated(request_id, self._machine.state, self._host.unapplied_facts)

    def _raise_if_busy(self) -> None:
        """Raise ApplicationError if the run accepts no request now, not even a repeated one."""
        reason = self._host.busy_problem()
        if reason is not None:
            raise ApplicationError(f"{reason}: send the request again", type=RUN_BUSY, non_retryable=True)

    def _held_steps(self, request: HeldRequest) -> list[HeldStep]:
        """Return the held step runs that the request names, at least one. Raises ApplicationError."""
        selection = self._machine.graph, self._machine.state, request.step, self._host.unapplied_facts
        try:
            return find_held_runs(*selection) if request.all else [find_held_run(*selection)]
        except RefusedError as error:
            raise ApplicationError(str(error), type=REFUSED_REQUEST, non_retryable=True) from error

    @workflow.signal(name=PAUSE_SIGNAL, description="The playbook that waits for this one was paused or resumed.")
    def caller_paused(self, notice: PauseNotice) -> None:
        """Handle the notice of the run that called this one."""
        self._host.receive(pause_fact(notice))


def pause_fact(notice: PauseNotice) -> PauseRequested | UnpauseRequested:
    """Return the fact of a notice from the workflow that waits for this one."""
    fact = PauseRequested if notice.is_paused else UnpauseRequested
    return fact(now(), by=notice.by, reason=notice.reason)


def raise_if_refused(reason: str | None) -> None:
    """Raise ApplicationError with the reason; None accepts the request."""
    if reason is not None:
        raise ApplicationError(reason, type=REFUSED_REQUEST, non_retryable=True)
