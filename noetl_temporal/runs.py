"""Finds, queries and stops submitted runs, and reads their event log.

Separate from client.py, which submits runs, because only submitting needs the compiler.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
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
from noetl_temporal.config import connect_temporal
from noetl_temporal.control.request_sending import RequestRefusedError, RunOverError, check_reason, translate_errors
from noetl_temporal.control.run_control import RunControl
from noetl_temporal.database_errors import DATABASE_ERRORS
from noetl_temporal.deployment import DeploymentError, postgres_error
from noetl_temporal.environment import dsn_from_environment
from noetl_temporal.event_ids import millisecond_of
from noetl_temporal.inspection.past_reports import past_report, past_run
from noetl_temporal.inspection.run_ids import AmbiguousIdError, find_run
from noetl_temporal.inspection.run_list import ListedRun, RunFilter, runs_in_log, runs_in_temporal
from noetl_temporal.machine.failure_log import Failure, FailureLog
from noetl_temporal.messages.run_input import RunReport
from noetl_temporal.mirror.poll_interval import PollInterval
from noetl_temporal.mirror.read import Event, EventTail, find_execution
from noetl_temporal.naming import CANCEL_SIGNAL, PLAYBOOK_CANCELLED, PLAYBOOK_FAILED, REPORT_MEMO, RunStatus
from noetl_temporal.payloads.codec import NO_STORAGE_CODE
from noetl_temporal.search_attributes import EXECUTION_ID
from noetl_temporal.temporal_errors import is_about_namespace, rpc_error
from noetl_temporal.visibility import PLAYBOOKS, execution_ids

__all__ = [
    "AmbiguousIdError",
    "ListedRun",
    "NoEventLogError",
    "RequestRefusedError",
    "RunHandle",
    "RunOverError",
    "RunStatus",
    "Runs",
    "UnknownRunError",
]

UNLISTED_SECONDS = 3.0
"""How long it may take until Temporal lists a new run."""

RETRY_SECONDS = 0.1

_REPORT_IN_POSTGRES = (
    "run {} has ended, but its report is large and was stored in Postgres: set NOETL_POSTGRES to the DSN that the "
    "workers use, then run `noetl status {}`"
)


class NoEventLogError(RuntimeError):
    """There is no event log to read: set NOETL_POSTGRES to the DSN of its Postgres, or pass ``dsn`` to `connect`."""


class UnknownRunError(LookupError):
    """Temporal does not have the run."""


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

    async def find(self, run: int | str) -> RunHandle:
        """Return the handle of a run, by its execution id, its workflow id, or the beginning of either, at least six
        characters.

        Raises UnknownRunError, AmbiguousIdError if several runs have such an ID, DeploymentError.
        """
        try:
            execution_id = run if isinstance(run, int) else await find_run(run, self.temporal, self.dsn)
        except RPCError as error:
            raise rpc_error(error, self.temporal.namespace) or error from error
        except DATABASE_ERRORS as error:
            raise postgres_error(error, self.dsn or "") from error
        if execution_id is None:
            raise UnknownRunError(f"no run has an ID that begins with {run!r}")
        return await self._find(execution_id)

    async def list(
        self,
        path: str | None = None,
        status: RunStatus | Sequence[RunStatus] = (),
        since: datetime | None = None,
        limit: int = 20,
        ended_since: datetime | None = None,
    ) -> Sequence[ListedRun]:
        """Return the latest runs: of a path (``etl/*`` for a prefix), with a status or one of several, started at
        ``since`` or later, ended at ``ended_since`` or later.

        They are read from the event log, which has a run as soon as the mirror has read it; without an event log from
        Temporal, which has a run until its retention is over. Raises DeploymentError.
        """
        statuses = (status,) if isinstance(status, str) else status
        run_filter = RunFilter(path, statuses, since, limit, ended_since)
        try:
            return await (
                runs_in_log(self.dsn, run_filter) if self.dsn else runs_in_temporal(self.temporal, run_filter)
            )
        except RPCError as error:
            raise rpc_error(error, self.temporal.namespace) or error from error
        except DATABASE_ERRORS as error:
            raise postgres_error(error, self.dsn or "") from error

    async def _find(self, execution_id: int) -> RunHandle:
        """Return the handle of a run in Temporal's list. A run that was just submitted may not be listed yet: then the
        list is read again. Raises UnknownRunError, DeploymentError.
        """
        query = f"{PLAYBOOKS} AND {EXECUTION_ID.name} = {execution_id}"
        while True:
            is_fresh = abs(time.time() - millisecond_of(execution_id) / 1000) < UNLISTED_SECONDS
            try:
                workflows = [workflow async for workflow in self.temporal.list_workflows(query)]
                for id_, workflow in await execution_ids(self.temporal, workflows):
                    if id_ == execution_id:
                        return RunHandle(self.temporal, self._workflow(workflow.id), execution_id, self.dsn)
            except RPCError as error:
                raise rpc_error(error, self.temporal.namespace) or error from error
            if not is_fresh:
                raise UnknownRunError(f"Temporal has no run {execution_id}")
            await asyncio.sleep(RETRY_SECONDS)

    async def handle(self, workflow_id: str) -> RunHandle:
        """Return the handle of a run by its workflow id. Raises UnknownRunError, DeploymentError."""
        workflow = self._workflow(workflow_id)
        try:
            description = await workflow.describe()
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND and not is_about_namespace(error):
                raise UnknownRunError(f"Temporal has no workflow {workflow_id!r}") from error
            raise rpc_error(error, self.temporal.namespace) or error from error
        execution_id = description.typed_search_attributes.get(EXECUTION_ID)
        if execution_id is None:
            raise UnknownRunError(f"workflow {workflow_id!r} is not a playbook: it has no {EXECUTION_ID.name}")
        return RunHandle(self.temporal, workflow, execution_id, self.dsn)

    def _workflow(self, workflow_id: str) -> WorkflowHandle[Any, RunReport]:
        return self.temporal.get_workflow_handle(workflow_id, result_type=RunReport)


class RunHandle(RunControl):
    """One run. ``is_new`` if the submission that returned this handle has started it."""

    def __init__(
        self,
        temporal: Client,
        workflow: WorkflowHandle[Any, RunReport],
        execution_id: int,
        dsn: str | None,
        *,
        is_new: bool = False,
    ) -> None:
        super().__init__(temporal, workflow)
        self.execution_id = execution_id
        self._dsn = dsn
        self.is_new = is_new
        self._was_cancelled = False

    @property
    def run_id(self) -> str | None:
        """The run id of the first run."""
        return self.workflow.first_execution_run_id or self.workflow.result_run_id

    async def result(self) -> RunReport:
        """Wait for the end of the run and return its report, whose ``status`` is completed, partial, failed, cancelled,
        terminated or timed_out. The report of a run that Temporal has removed is read from the event log.

        Raises UnknownRunError if neither has its end; DeploymentError if the report is large and this process has no
        Postgres from which to read it, or if it lacks the signature that this process requires (signing.py).
        """
        try:
            return await self.workflow.result()
        except RuntimeError as error:
            if NO_STORAGE_CODE not in str(error):
                raise
            raise DeploymentError(_REPORT_IN_POSTGRES.format(self.execution_id, self.execution_id)) from error
        except ApplicationError as error:  # raised by our converter
            raise DeploymentError(error.message) from error
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return await self._past_result()
        except WorkflowFailureError as error:
            if isinstance(error.cause, TerminatedError) and await self._was_reset():
                return await RunHandle(self._temporal, self._latest_handle(), self.execution_id, self._dsn).result()
            return await self._report_of(error.cause)

    async def wait(self, timeout: timedelta | None = None) -> RunReport:  # noqa: ASYNC109 - of the wait, not of the run
        """Return the ``result``. Raises TimeoutError if the run has not ended by then, without stopping it."""
        async with asyncio.timeout(None if timeout is None else timeout.total_seconds()):
            return await self.result()

    async def _past_result(self) -> RunReport:
        if self._dsn is not None:
            log = await asyncpg.connect(self._dsn)
            try:
                past, run = await find_execution(log, self.execution_id), await past_run(log, self.execution_id)
                report = None if run is None else await past_report(log, self._temporal.data_converter, run)
            finally:
                await log.close()
            if report is not None or (past is not None and past.end_time is not None):
                return report or RunReport(past.status.lower() if past else "", self.execution_id)
        raise UnknownRunError(f"neither Temporal nor the event log has the end of run {self.execution_id}")

    async def _was_reset(self) -> bool:
        """Whether a terminated run was replaced by one that a reset created: then the latest run is not terminated."""
        try:
            return (await self._latest_handle().describe()).status is not WorkflowExecutionStatus.TERMINATED
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return False

    async def _report_of(self, cause: BaseException) -> RunReport:
        if isinstance(cause, ApplicationError) and cause.type in (PLAYBOOK_FAILED, PLAYBOOK_CANCELLED):
            return msgspec.convert(cause.details[0], RunReport)
        if isinstance(cause, CancelledError):
            return await self._report_in_memo() or RunReport("cancelled", self.execution_id)
        if isinstance(cause, ApplicationError):  # the workflow could not start, or not continue
            failure = Failure("playbook", cause.message, kind=cause.type or "internal")
            return RunReport("failed", self.execution_id, failures=FailureLog().with_failure(failure))
        return RunReport("terminated" if isinstance(cause, TerminatedError) else "timed_out", self.execution_id)

    async def _report_in_memo(self) -> RunReport | None:
        report = (await (await self.workflow.describe()).memo()).get(REPORT_MEMO)
        return None if report is None else msgspec.convert(report, RunReport)

    async def cancel(self, reason: str = "") -> bool:
        """Request that the run stops, after the cleanup in its step ``end``. ``result`` waits for the end of the
        cleanup.

        A second request skips the cleanup. Returns whether this was a second request. Raises RequestRefusedError.
        """
        check_reason(reason)
        with translate_errors():
            description = await self.workflow.describe()
            if description.close_time is not None:  # Temporal accepts the cancel of a closed workflow
                raise RunOverError
            if self._was_cancelled or _is_cancelled(description):
                await self.workflow.signal(CANCEL_SIGNAL, reason)
                return True
            await self.workflow.cancel(reason=reason)
        self._was_cancelled = True
        return False

    async def terminate(self, reason: str = "") -> None:
        """End the run immediately, without cleanup. Calls in progress are abandoned. Raises RequestRefusedError."""
        check_reason(reason)
        with translate_errors():
            await self.workflow.terminate(reason=reason)

    async def progress(self, rpc_timeout: timedelta | None = None) -> dict[str, dict[str, Json]]:
        """Query the workflow for the steps so far: name -> {status, ...}. Raises RPCError if no worker responds in
        time.
        """
        return cast("dict[str, dict[str, Json]]", await self.workflow.query("progress", rpc_timeout=rpc_timeout))

    async def events(self) -> AsyncIterator[Event]:
        """Yield the events of the run from its start until its last one, as they are stored.

        Without an event log, they are derived from Temporal's history, if Temporal still has it: the same events,
        except those about resets. Raises asyncpg's errors, or RPCError without an event log.
        """
        if self._dsn is None:
            from noetl_temporal.inspection.history_events import events_in_history  # with the mirror, which few need

            async for event in events_in_history(self._temporal, self.workflow_id):
                yield event
            return
        async with asyncpg.create_pool(self._dsn, min_size=1, max_size=1) as pool:
            tail, interval = EventTail(self.execution_id), PollInterval()
            while not tail.has_ended:
                rows = await tail.read(pool)
                for row in rows:
                    yield row
                if not tail.has_ended:
                    await interval.wait(found_rows=bool(rows))


def _is_cancelled(description: WorkflowExecutionDescription) -> bool:
    return description.raw_description.workflow_extended_info.cancel_requested
