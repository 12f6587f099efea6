"""Sends requests to a run, and converts its refusals and Temporal's errors to our exceptions."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Generator
from datetime import timedelta
from typing import Any, TypeAlias

import msgspec
from temporalio.client import (
    WorkflowHandle,
    WorkflowQueryRejectedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from noetl_temporal.control.paused_workflows import unpause_command
from noetl_temporal.machine.waits.wait import Wait
from noetl_temporal.messages.control_requests import (
    DecisionRequest,
    HeldRequest,
    OpenWaits,
    PauseRequest,
    SignalRequest,
    requester_refusal,
)
from noetl_temporal.naming import RUN_BUSY, WAITS_QUERY
from noetl_temporal.temporal_errors import rpc_error

__all__ = [
    "NoAnswerError",
    "Request",
    "RequestRefusedError",
    "RunOverError",
    "check_reason",
    "chosen_approval",
    "open_approval",
    "open_waits",
    "send_request",
    "translate_errors",
]

Request: TypeAlias = SignalRequest | DecisionRequest | PauseRequest | HeldRequest

RESPONSE_TIMEOUT = timedelta(seconds=20)
"""How long to wait until a worker accepts a request. It may still be accepted later."""

_TRANSIENT_ERRORS = {
    "workflow update was aborted": "the run has too many requests to answer",
    "Workflow Task in failed state": "the run answers no requests, as its workflow task fails: see the worker's log",
}
"""The message if a request still fails at the deadline, by the text in Temporal's error after which it is sent again.
"""

_PAUSED = "Workflow is paused"
"""The text in Temporal's error about a request to a workflow that was paused in Temporal itself."""

_TOO_MANY_REQUESTS = "limit on the total number of distinct updates"
"""The text in Temporal's error about a request to a workflow that has received as many as Temporal allows."""

_RETRY_SECONDS = 0.5
"""Seconds before a request is sent again."""


class RequestRefusedError(ValueError):
    """A run refused a request. The message is the reason."""


class RunOverError(RequestRefusedError):
    """The run has ended."""

    def __init__(self) -> None:
        super().__init__("the run has ended")


class NoAnswerError(RequestRefusedError):
    """No worker answered the request in time. One may still accept it."""


async def send_request(workflow: WorkflowHandle[Any, Any], update: str, request: Request, namespace: str) -> Any:
    """Send a request to a run and return its response. Raises RequestRefusedError, DeploymentError."""
    _check_types(request)
    try:
        return await _send_until_answered(workflow, update, request)
    except WorkflowUpdateFailedError as error:
        cause = error.cause
        raise RequestRefusedError(cause.message if isinstance(cause, ApplicationError) else str(cause)) from error
    except WorkflowUpdateRPCTimeoutOrCancelledError as error:
        raise NoAnswerError(
            "no worker answers: start one with `noetl worker`. It may then still accept this request: check "
            "`noetl events` before you send it again"
        ) from error
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            raise RunOverError from error
        if _PAUSED in error.message:
            raise RequestRefusedError(_paused_in_temporal(workflow)) from error
        if _TOO_MANY_REQUESTS in error.message:
            raise RequestRefusedError("the run has received as many requests as Temporal allows") from error
        raise rpc_error(error, namespace) or error from error


@contextlib.contextmanager
def translate_errors() -> Generator[None]:
    """Raise RunOverError in place of Temporal's error if the run has ended."""
    try:
        yield
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            raise RunOverError from error
        raise


def check_reason(reason: str) -> None:
    """Check the reason of a cancel or termination, as the run does not validate it. Raises RequestRefusedError."""
    _check_types(PauseRequest(0, reason=reason))
    refusal = requester_refusal("", reason)
    if refusal is not None:
        raise RequestRefusedError(refusal)


def _check_types(request: Request) -> None:
    """Check the types of the fields of a request, as the run could not decode others. Raises RequestRefusedError."""
    try:
        msgspec.json.decode(msgspec.json.encode(request), type=type(request))
    except UnicodeEncodeError as error:
        raise RequestRefusedError("it has text that is not Unicode") from error
    except (TypeError, msgspec.ValidationError) as error:
        raise RequestRefusedError(str(error)) from error


async def _send_until_answered(workflow: WorkflowHandle[Any, Any], update: str, request: Request) -> Any:
    """Send a request, and send it again while it is not handled. That is harmless, as requests have ids.

    Temporal aborts requests if many reach a run at the same time or the run continues as new, and refuses them while a
    workflow task fails. A run refuses them while it stores or loads values, and when it is about to end or to continue
    as new.
    """
    clock = asyncio.get_running_loop().time
    deadline = clock() + RESPONSE_TIMEOUT.total_seconds()
    while True:
        try:
            return await workflow.execute_update(update, request, id=str(request.id), rpc_timeout=RESPONSE_TIMEOUT)  # pyright: ignore[reportUnknownMemberType] - the SDK's type
        except WorkflowUpdateFailedError as error:
            if not isinstance(error.cause, ApplicationError) or error.cause.type != RUN_BUSY or clock() > deadline:
                raise
        except RPCError as error:
            reason = next((reason for text, reason in _TRANSIENT_ERRORS.items() if text in error.message), None)
            if reason is None:
                raise
            if clock() > deadline:
                raise RequestRefusedError(f"{reason}; it may have accepted this one: see `noetl events`") from error
        await asyncio.sleep(_RETRY_SECONDS)


async def open_waits(workflow: WorkflowHandle[Any, Any], rpc_timeout: timedelta | None = None) -> OpenWaits:
    """Return what the run waits for. Raises RPCError if no worker answers in time, RequestRefusedError if the run is
    paused in Temporal itself.
    """
    try:
        with translate_errors():
            waits: OpenWaits = await workflow.query(WAITS_QUERY, result_type=OpenWaits, rpc_timeout=rpc_timeout)
    except WorkflowQueryRejectedError as error:
        raise RequestRefusedError(_paused_in_temporal(workflow)) from error
    return waits


def _paused_in_temporal(workflow: WorkflowHandle[Any, Any]) -> str:
    return f"it is paused in Temporal and accepts no requests; to resume it: {unpause_command(workflow.id)}"


async def open_approval(workflow: WorkflowHandle[Any, Any], name: str | None) -> Wait:
    """Return the open approval with this name: see ``chosen_approval``. Raises RequestRefusedError, and RPCError if no
    worker answers in time.
    """
    waits = (await open_waits(workflow, RESPONSE_TIMEOUT)).waits
    if not waits and (await workflow.describe()).close_time is not None:
        raise RunOverError
    return chosen_approval(waits, name)


def chosen_approval(waits: list[Wait], name: str | None) -> Wait:
    """Return the approval with this name: of a step, ``review``, or of an item of a loop, ``review[3]``. Without a
    name, return the only one. Raises RequestRefusedError.
    """
    approvals = [wait for wait in waits if wait.kind == "approval"]
    if not approvals:
        raise RequestRefusedError("nothing to approve: the run waits for no approval now")
    matches = [wait for wait in approvals if name in (None, wait.name, wait.step)]
    if len(matches) == 1:
        return matches[0]
    names = ", ".join(wait.name for wait in approvals)
    if not matches:
        raise RequestRefusedError(f"no approval {name!r} is open; these are: {names}")
    raise RequestRefusedError(f"several approvals are open, name one: {names}")
