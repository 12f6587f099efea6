"""Sends signals and decisions to a run, and says why one is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from temporalio.client import WorkflowHandle, WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from noetl_temporal.control_requests import DecisionRequest, OpenWaits, SignalRequest
from noetl_temporal.machine.waits.wait import Wait
from noetl_temporal.naming import DECIDE_UPDATE, SIGNAL_UPDATE, WAITS_QUERY
from noetl_temporal.temporal_problems import rpc_problem

__all__ = ["RequestRefusedError", "chosen_approval", "open_approval", "open_waits", "send"]

WITHIN = timedelta(seconds=20)
"""Until a worker has to have accepted a request. One that comes later is accepted all the same."""


class RequestRefusedError(ValueError):
    """A run refused a request; the message says why."""


async def send(workflow: WorkflowHandle[Any, Any], request: SignalRequest | DecisionRequest, namespace: str) -> None:
    """Return when the run has accepted the request. Raises RequestRefusedError, DeploymentError."""
    name = SIGNAL_UPDATE if isinstance(request, SignalRequest) else DECIDE_UPDATE
    try:
        await workflow.execute_update(name, request, id=str(request.id), rpc_timeout=WITHIN)  # pyright: ignore[reportUnknownMemberType] - the SDK's type
    except WorkflowUpdateFailedError as error:
        cause = error.cause
        raise RequestRefusedError(cause.message if isinstance(cause, ApplicationError) else str(cause)) from error
    except WorkflowUpdateRPCTimeoutOrCancelledError as error:
        raise RequestRefusedError("no worker answers: start one with `noetl worker`, and ask again") from error
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            raise RequestRefusedError("the run is over") from error
        raise rpc_problem(error, namespace) or error from error


async def open_waits(workflow: WorkflowHandle[Any, Any], within: timedelta | None = None) -> list[Wait]:
    """What the run waits for, from the oldest on. Raises RPCError where no worker answers in time."""
    found: OpenWaits = await workflow.query(WAITS_QUERY, result_type=OpenWaits, rpc_timeout=within)
    return found.waits


async def open_approval(workflow: WorkflowHandle[Any, Any], name: str | None) -> Wait:
    """The approval that is meant, as ``chosen_approval``. Raises RequestRefusedError, and RPCError as open_waits."""
    waits = await open_waits(workflow, WITHIN)
    if not waits and (await workflow.describe()).close_time is not None:
        raise RequestRefusedError("the run is over")
    return chosen_approval(waits, name)


def chosen_approval(waits: list[Wait], name: str | None) -> Wait:
    """The approval that is meant: the only one, or that of a step, ``review``, or of an item of a loop, ``review[3]``.

    Raises RequestRefusedError.
    """
    approvals = [wait for wait in waits if wait.kind == "approval"]
    if not approvals:
        raise RequestRefusedError("nothing to approve: the run waits for no approval now")
    named = [wait for wait in approvals if name in (None, wait.name, wait.step)]
    if len(named) == 1:
        return named[0]
    names = ", ".join(wait.name for wait in approvals)
    if not named:
        raise RequestRefusedError(f"no approval {name!r} is open: there are {names}")
    raise RequestRefusedError(f"several approvals are open, name one: {names}")
