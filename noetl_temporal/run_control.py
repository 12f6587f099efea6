"""Requests to one run: answer its waits, pause and resume it, decide about its held steps."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec
from temporalio.client import Client, WorkflowHandle

from noetl_compiler.graph import Json
from noetl_temporal.control_requests import (
    DecidedRuns,
    DecisionRequest,
    HeldRequest,
    OpenWaits,
    PauseRequest,
    SignalRequest,
)
from noetl_temporal.ids import new_execution_id
from noetl_temporal.machine.waits.wait import Signal, Wait
from noetl_temporal.naming import (
    DECIDE_UPDATE,
    PAUSE_UPDATE,
    RESUME_UPDATE,
    RETRY_UPDATE,
    SIGNAL_UPDATE,
    SKIP_UPDATE,
)
from noetl_temporal.paused_calls import pause_calls, unpause_calls
from noetl_temporal.request_sending import Request, RequestRefusedError, open_approval, open_waits, send
from noetl_temporal.run_input import RunReport

__all__ = ["RunControl"]


class RunControl:
    """The requests to one run."""

    def __init__(self, temporal: Client, workflow: WorkflowHandle[Any, RunReport]) -> None:
        self._temporal = temporal
        self.workflow = workflow

    @property
    def workflow_id(self) -> str:
        """``<playbook path>/<execution_id>``, truncated if that is long."""
        return self.workflow.id

    def _latest(self) -> WorkflowHandle[Any, RunReport]:
        """Return the handle of the latest run of the workflow."""
        return self._temporal.get_workflow_handle(self.workflow_id, result_type=RunReport)

    async def waits(self, within: timedelta | None = None) -> list[Wait]:
        """Return what the run waits for, from the oldest on. Raises RPCError if no worker responds in time."""
        return (await self.suspensions(within)).waits

    async def suspensions(self, within: timedelta | None = None) -> OpenWaits:
        """Return what the run waits for: waits, held steps, and its pause. Raises RPCError if no worker responds in
        time.
        """
        return await open_waits(self.workflow, within)

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
        if (await self.suspensions()).pause is None:  # resumed meanwhile, by someone who saw no paused call yet
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
        """Repeat a held step; the only one, unless ``step`` names it. Returns its name.

        Raises RequestRefusedError with the reason, DeploymentError."""
        return (
            await self._decide_held(RETRY_UPDATE, HeldRequest(new_execution_id(), step, by=by, reason=reason))
        ).first

    async def retry_all(self, step: str = "", *, by: str = "", reason: str = "") -> int:
        """Repeat all held runs of steps; those of one step if ``step`` names it. Returns how many.

        Raises RequestRefusedError with the reason, DeploymentError."""
        request = HeldRequest(new_execution_id(), step, by=by, reason=reason, all=True)
        return (await self._decide_held(RETRY_UPDATE, request)).count

    async def skip(self, step: str, data: Json = None, *, by: str = "", reason: str = "") -> str:
        """Give a held step the result ``data`` and continue. Returns its name.

        Raises RequestRefusedError with the reason, DeploymentError."""
        request = HeldRequest(new_execution_id(), step, data, by, reason)
        return (await self._decide_held(SKIP_UPDATE, request)).first

    async def skip_all(self, step: str = "", data: Json = None, *, by: str = "", reason: str = "") -> int:
        """Give all held runs of steps the result ``data``; those of one step if ``step`` names it. Returns how many.

        Raises RequestRefusedError with the reason, DeploymentError."""
        request = HeldRequest(new_execution_id(), step, data, by, reason, all=True)
        return (await self._decide_held(SKIP_UPDATE, request)).count

    async def _decide_held(self, update: str, request: HeldRequest) -> DecidedRuns:
        return msgspec.convert(await self._send(update, request), DecidedRuns)

    async def approval(self, step: str | None = None) -> Wait:
        """Return the approval that the run waits for; ``step``, or ``step[3]`` for an item of a loop, where there are
        several.

        Raises RequestRefusedError, and RPCError if no worker responds in time.
        """
        return await open_approval(self._latest(), step)

    async def signal(self, name: str, data: Json = None, *, key: str | None = None, id: int | None = None) -> None:  # noqa: A002 - as Temporal says it
        """Send a signal to the step that waits for it, or keep it until one does. A repeated ``id`` is harmless.

        Raises RequestRefusedError with the reason, and DeploymentError."""
        await self._send(SIGNAL_UPDATE, SignalRequest(id or new_execution_id(), Signal(name, data, key)))

    async def approve(
        self, step: str | None = None, *, by: str, reason: str = "", form: Mapping[str, Json] | None = None
    ) -> Wait:
        """Approve what the run waits for; ``step`` where it waits for several approvals. Returns what was approved.

        Raises RequestRefusedError with the reason, DeploymentError, and RPCError if no worker responds in time."""
        return await self._decide(step, approved=True, by=by, reason=reason, form=form)

    async def reject(
        self, step: str | None = None, *, by: str, reason: str = "", form: Mapping[str, Json] | None = None
    ) -> Wait:
        """Reject what the run waits for; a rejection is a success that the playbook's routes decide on. Otherwise as
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
        return await send(self._latest(), update, request, self._temporal.namespace)
