"""Sends requests to one run: to answer its waits, to pause and resume it, and to decide about its held steps."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec
from temporalio.client import Client, WorkflowHandle

from noetl_compiler.graph import Json
from noetl_temporal.control.paused_calls import pause_calls, unpause_calls
from noetl_temporal.control.request_sending import Request, RequestRefusedError, open_approval, open_waits, send_request
from noetl_temporal.ids import new_execution_id
from noetl_temporal.machine.waits.wait import Signal, Wait
from noetl_temporal.messages.control_requests import (
    DecidedRuns,
    DecisionRequest,
    HeldRequest,
    OpenWaits,
    PauseRequest,
    SignalRequest,
)
from noetl_temporal.messages.run_input import RunReport
from noetl_temporal.naming import (
    DECIDE_UPDATE,
    PAUSE_UPDATE,
    RESUME_UPDATE,
    RETRY_UPDATE,
    SIGNAL_UPDATE,
    SKIP_UPDATE,
)

__all__ = ["RunControl"]


class RunControl:
    """Controls one run. ``workflow`` is the handle of its workflow."""

    def __init__(self, temporal: Client, workflow: WorkflowHandle[Any, RunReport]) -> None:
        self._temporal = temporal
        self.workflow = workflow

    @property
    def workflow_id(self) -> str:
        """The id of the workflow: ``<playbook path>/<execution_id>``, truncated if it is long."""
        return self.workflow.id

    def _latest_handle(self) -> WorkflowHandle[Any, RunReport]:
        """Return the handle of the latest run of the workflow."""
        return self._temporal.get_workflow_handle(self.workflow_id, result_type=RunReport)

    async def waits(self, rpc_timeout: timedelta | None = None) -> list[Wait]:
        """Return the open waits of the run, the oldest first. Raises RPCError if no worker responds in time."""
        return (await self.suspensions(rpc_timeout)).waits

    async def suspensions(self, rpc_timeout: timedelta | None = None) -> OpenWaits:
        """Return what the run waits for: its waits, its held steps and its pause. Raises RPCError if no worker responds
        in time.
        """
        return await open_waits(self.workflow, rpc_timeout)

    async def pause(self, *, by: str = "", reason: str = "", now: bool = False) -> None:
        """Pause the run: nothing starts until ``resume``. Calls in flight end; with ``now`` they are interrupted, and
        repeated after ``resume``.

        Raises RequestRefusedError with the reason, DeploymentError, RPCError."""
        try:
            await self._send(PAUSE_UPDATE, PauseRequest(new_execution_id(), by, reason))
        except RequestRefusedError:
            if not now or (await self.suspensions()).pause is None:
                raise
        await pause_calls(self._temporal, self.workflow_id, frames_only=not now)
        if (await self.suspensions()).pause is None:  # it was resumed before the calls were paused
            await unpause_calls(self._temporal, self.workflow_id)

    async def resume(self, *, by: str = "", reason: str = "") -> None:
        """Resume a paused run. Raises RequestRefusedError with the reason, DeploymentError, RPCError."""
        try:
            await self._send(RESUME_UPDATE, PauseRequest(new_execution_id(), by, reason))
        except RequestRefusedError:
            if not await unpause_calls(self._temporal, self.workflow_id):
                raise
        else:
            await unpause_calls(self._temporal, self.workflow_id)

    async def retry(self, step: str = "", *, by: str = "", reason: str = "") -> str:
        """Repeat the held step that ``step`` names, or the only one. Returns its name.

        Raises RequestRefusedError with the reason, DeploymentError."""
        return (
            await self._decide_held(RETRY_UPDATE, HeldRequest(new_execution_id(), step, by=by, reason=reason))
        ).first

    async def retry_all(self, step: str = "", *, by: str = "", reason: str = "") -> int:
        """Repeat all held runs of steps, or only those of ``step``. Returns how many.

        Raises RequestRefusedError with the reason, DeploymentError."""
        request = HeldRequest(new_execution_id(), step, by=by, reason=reason, all=True)
        return (await self._decide_held(RETRY_UPDATE, request)).count

    async def skip(self, step: str, data: Json = None, *, by: str = "", reason: str = "") -> str:
        """Give a held step the result ``data`` and continue. Returns its name.

        Raises RequestRefusedError with the reason, DeploymentError."""
        request = HeldRequest(new_execution_id(), step, data, by, reason)
        return (await self._decide_held(SKIP_UPDATE, request)).first

    async def skip_all(self, step: str = "", data: Json = None, *, by: str = "", reason: str = "") -> int:
        """Give all held runs of steps, or only those of ``step``, the result ``data``. Returns how many.

        Raises RequestRefusedError with the reason, DeploymentError."""
        request = HeldRequest(new_execution_id(), step, data, by, reason, all=True)
        return (await self._decide_held(SKIP_UPDATE, request)).count

    async def _decide_held(self, update: str, request: HeldRequest) -> DecidedRuns:
        return msgspec.convert(await self._send(update, request), DecidedRuns)

    async def approval(self, step: str | None = None) -> Wait:
        """Return the approval that the run waits for. If there are several, ``step`` names one; ``review[3]`` is that
        for an item of a loop.

        Raises RequestRefusedError, and RPCError if no worker responds in time.
        """
        return await open_approval(self._latest_handle(), step)

    async def signal(self, name: str, data: Json = None, *, key: str | None = None, id: int | None = None) -> None:  # noqa: A002 - as Temporal says it
        """Send a signal. If no step waits for it yet, the run stores it. A request with a repeated ``id`` is ignored.

        Raises RequestRefusedError with the reason, and DeploymentError."""
        await self._send(SIGNAL_UPDATE, SignalRequest(id or new_execution_id(), Signal(name, data, key)))

    async def approve(
        self, step: str | None = None, *, by: str, reason: str = "", form: Mapping[str, Json] | None = None
    ) -> Wait:
        """Approve what the run waits for; if it waits for several approvals, ``step`` names one. Returns the approval.

        Raises RequestRefusedError with the reason, DeploymentError, and RPCError if no worker responds in time."""
        return await self._decide(step, approved=True, by=by, reason=reason, form=form)

    async def reject(
        self, step: str | None = None, *, by: str, reason: str = "", form: Mapping[str, Json] | None = None
    ) -> Wait:
        """Reject what the run waits for. The step succeeds: the playbook's routes decide what follows. Otherwise see
        ``approve``.
        """
        return await self._decide(step, approved=False, by=by, reason=reason, form=form)

    async def _decide(
        self, step: str | None, *, approved: bool, by: str, reason: str, form: Mapping[str, Json] | None
    ) -> Wait:
        wait = await self.approval(step)
        request = DecisionRequest(new_execution_id(), wait.id, approved, by, reason, dict(form or {}))
        await self._send(DECIDE_UPDATE, request)
        return wait

    async def _send(self, update: str, request: Request) -> Any:
        return await send_request(self._latest_handle(), update, request, self._temporal.namespace)
