"""Finds, queries and stops submitted runs, and reads their event log.

Separate from client.py, which submits runs, because only submitting needs the compiler.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from typing import Any, cast

import asyncpg
import msgspec
from temporalio.client import (
    Client,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
)
from temporalio.exceptions import ApplicationError, CancelledError, TerminatedError
from temporalio.service import RPCError, RPCStatusCode

from noetl_compiler.graph import Json
from noetl_temporal.answering import RequestRefusedError, open_approval, open_waits, send
from noetl_temporal.codec import NO_STORE
from noetl_temporal.config import connect_temporal
from noetl_temporal.control_requests import DecisionRequest, SignalRequest
from noetl_temporal.deployment import DeploymentError
from noetl_temporal.environment import dsn_from_environment
from noetl_temporal.ids import new_execution_id
from noetl_temporal.machine.failure_log import Failure, FailureLog
from noetl_temporal.machine.waits.wait import Signal, Wait
from noetl_temporal.mirror.poll_interval import PollInterval
from noetl_temporal.mirror.read import Event, EventTail
from noetl_temporal.naming import CANCEL_SIGNAL, PLAYBOOK_WORKFLOW, REPORT_MEMO
from noetl_temporal.run_input import RunReport
from noetl_temporal.search_attributes import EXECUTION_ID
from noetl_temporal.temporal_problems import rpc_problem

__all__ = ["NoEventLogError", "RequestRefusedError", "RunHandle", "Runs", "UnknownRunError"]

REPORTING = ("PlaybookFailed", "PlaybookCancelled")
"""Failures of a workflow that have its RunReport in their details."""


_NO_REPORT = (
    "run {} has ended, but its report is large and was stored in Postgres: set NOETL_POSTGRES to the DSN that the "
    "workers use, then run `noetl status {}`"
)


class NoEventLogError(RuntimeError):
    """There is no event log to read: set NOETL_POSTGRES to the DSN of its Postgres, or pass ``dsn`` to `connect`."""


class UnknownRunError(LookupError):
    """Temporal does not have the run, or no longer has it."""


class Runs:
    """The runs of a namespace. ``temporal`` is the underlying client, ``dsn`` that of the event log, if known."""

    def __init__(self, temporal: Client, dsn: str | None) -> None:
        self.temporal = temporal
        self.dsn = dsn

    @classmethod
    async def connect(cls, address: str | None = None, *, namespace: str | None = None, dsn: str | None = None) -> Runs:
        """Connect to the Temporal server of the environment, and note the DSN of the event log.

        Raises DeploymentError if the server is unavailable."""
        return cls(await connect_temporal(address, namespace, dsn), dsn or dsn_from_environment())

    async def find(self, execution_id: int) -> RunHandle:
        """The handle of a run that was submitted before. Raises UnknownRunError, DeploymentError."""
        query = f"WorkflowType = '{PLAYBOOK_WORKFLOW}' AND {EXECUTION_ID.name} = {execution_id}"
        try:
            async for found in self.temporal.list_workflows(query, limit=1):
                return RunHandle(self.temporal, self._workflow(found.id), execution_id, self.dsn)
        except RPCError as error:
            raise rpc_problem(error, self.temporal.namespace) or error from error
        raise UnknownRunError(f"Temporal has no run {execution_id}")

    async def handle(self, workflow_id: str) -> RunHandle:
        """The handle of a run by its workflow id. Raises UnknownRunError, DeploymentError."""
        workflow = self._workflow(workflow_id)
        try:
            found = await workflow.describe()
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND and "amespace" not in error.message:
                raise UnknownRunError(f"Temporal has no workflow {workflow_id!r}") from error
            raise rpc_problem(error, self.temporal.namespace) or error from error
        execution_id = found.typed_search_attributes.get(EXECUTION_ID)
        if execution_id is None:
            raise UnknownRunError(f"workflow {workflow_id!r} is not a playbook: it has no {EXECUTION_ID.name}")
        return RunHandle(self.temporal, workflow, execution_id, self.dsn)

    def _workflow(self, workflow_id: str) -> WorkflowHandle[Any, RunReport]:
        return self.temporal.get_workflow_handle(workflow_id, result_type=RunReport)


class RunHandle:
    """One run."""

    def __init__(
        self, temporal: Client, workflow: WorkflowHandle[Any, RunReport], execution_id: int, dsn: str | None
    ) -> None:
        self._temporal = temporal
        self.workflow = workflow
        self.execution_id = execution_id
        self._dsn = dsn
        self._was_cancelled = False

    @property
    def workflow_id(self) -> str:
        """``<playbook path>/<execution_id>``, cut where that is long."""
        return self.workflow.id

    @property
    def run_id(self) -> str | None:
        """The run id of the first run."""
        return self.workflow.first_execution_run_id or self.workflow.result_run_id

    async def result(self) -> RunReport:
        """Wait for the end: completed, failed, cancelled, terminated or timed_out is ``status``, never an exception.

        Raises DeploymentError if the report is large and there is no Postgres to read it from, or if it lacks the
        signature that this process requires (signing.py).
        """
        try:
            return await self.workflow.result()
        except RuntimeError as error:
            if NO_STORE not in str(error):
                raise
            raise DeploymentError(_NO_REPORT.format(self.execution_id, self.execution_id)) from error
        except ApplicationError as error:  # of our converter
            raise DeploymentError(error.message) from error
        except WorkflowFailureError as error:
            if isinstance(error.cause, TerminatedError) and await self._goes_on():
                return await RunHandle(self._temporal, self._latest(), self.execution_id, self._dsn).result()
            return await self._report_of(error.cause)

    async def _goes_on(self) -> bool:
        """Whether a terminated run was replaced by one that a reset made: then the latest run is not terminated."""
        try:
            return (await self._latest().describe()).status is not WorkflowExecutionStatus.TERMINATED
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return False

    def _latest(self) -> WorkflowHandle[Any, RunReport]:
        """The workflow by its id alone, so that it means the latest of its runs."""
        return self._temporal.get_workflow_handle(self.workflow_id, result_type=RunReport)

    async def _report_of(self, cause: BaseException) -> RunReport:
        if isinstance(cause, ApplicationError) and cause.type in REPORTING:
            return msgspec.convert(cause.details[0], RunReport)
        if isinstance(cause, CancelledError):
            return await self._left_report() or RunReport("cancelled", self.execution_id)
        if isinstance(cause, ApplicationError):  # the workflow could not begin, or not go on
            failure = Failure("playbook", cause.message, kind=cause.type or "internal")
            return RunReport("failed", self.execution_id, failures=FailureLog().with_failure(failure))
        return RunReport("terminated" if isinstance(cause, TerminatedError) else "timed_out", self.execution_id)

    async def _left_report(self) -> RunReport | None:
        left = (await (await self.workflow.describe()).memo()).get(REPORT_MEMO)
        return None if left is None else msgspec.convert(left, RunReport)

    async def cancel(self, reason: str = "") -> bool:
        """Ask the run to stop, after the cleanup in ``end``; ``result`` waits for that.

        A second request skips the cleanup; then True is returned."""
        if self._was_cancelled or _is_cancelled(await self.workflow.describe()):
            await self.workflow.signal(CANCEL_SIGNAL, reason)
            return True
        self._was_cancelled = True
        await self.workflow.cancel(reason=reason)
        return False

    async def waits(self, within: timedelta | None = None) -> list[Wait]:
        """What the run waits for, from the oldest on. Raises RPCError if no worker responds in time."""
        return await open_waits(self.workflow, within)

    async def approval(self, step: str | None = None) -> Wait:
        """The approval that the run waits for; ``step``, or ``step[3]`` for an item of a loop, where there are several.

        Raises RequestRefusedError, and RPCError if no worker responds in time."""
        return await open_approval(self._latest(), step)

    async def signal(self, name: str, data: Json = None, *, key: str | None = None, id: int | None = None) -> None:  # noqa: A002 - as Temporal says it
        """Send a signal to the step that waits for it, or keep it until one does. A repeated ``id`` is harmless.

        Raises RequestRefusedError with the reason, and DeploymentError."""
        await self._send(SignalRequest(id or new_execution_id(), Signal(name, data, key)))

    async def approve(
        self, step: str | None = None, *, by: str, reason: str = "", form: Mapping[str, Json] | None = None
    ) -> Wait:
        """Approve what the run waits for; ``step`` where it waits for several approvals. Returns what was approved.

        Raises RequestRefusedError with the reason, DeploymentError, and RPCError if no worker responds in time."""
        return await self._decide(step, approved=True, by=by, reason=reason, form=form)

    async def reject(
        self, step: str | None = None, *, by: str, reason: str = "", form: Mapping[str, Json] | None = None
    ) -> Wait:
        """Reject it; a rejection is a success that the playbook's routes decide on. Otherwise as ``approve``."""
        return await self._decide(step, approved=False, by=by, reason=reason, form=form)

    async def _decide(
        self, step: str | None, *, approved: bool, by: str, reason: str, form: Mapping[str, Json] | None
    ) -> Wait:
        wait = await self.approval(step)
        await self._send(DecisionRequest(new_execution_id(), wait.id, approved, by, reason, dict(form or {})))
        return wait

    async def _send(self, request: SignalRequest | DecisionRequest) -> None:
        await send(self._latest(), request, self._temporal.namespace)

    async def terminate(self, reason: str = "") -> None:
        """End the run immediately, without cleanup. Calls in progress are abandoned."""
        await self.workflow.terminate(reason=reason)

    async def progress(self, within: timedelta | None = None) -> dict[str, dict[str, Json]]:
        """The steps so far, from a query of the workflow. Raises RPCError if no worker responds in time."""
        return cast("dict[str, dict[str, Json]]", await self.workflow.query("progress", rpc_timeout=within))

    async def events(self) -> AsyncIterator[Event]:
        """The event log from its start until the run's last event, as rows appear. Raises NoEventLogError."""
        if self._dsn is None:
            raise NoEventLogError(
                "no event log to read: set NOETL_POSTGRES to the DSN of its Postgres, which `noetl dev status` "
                "shows, or pass dsn= to NoetlClient.connect"
            )
        async with asyncpg.create_pool(self._dsn, min_size=1, max_size=1) as pool:
            tail, interval = EventTail(self.execution_id), PollInterval()
            while not tail.has_ended:
                rows = await tail.read(pool)
                for row in rows:
                    yield row
                if not tail.has_ended:
                    await interval.wait(found_rows=bool(rows))


def _is_cancelled(found: WorkflowExecutionDescription) -> bool:
    return found.raw_description.workflow_extended_info.cancel_requested
