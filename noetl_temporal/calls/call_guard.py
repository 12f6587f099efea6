"""Restricts the activities that Temporal can start on a worker to tools, frames and the check of credentials, all with
valid signatures.

Anyone who can connect to Temporal can schedule any activity of a worker. The local activities, which store and load
values and end chunks, run only if a workflow of the same process calls them.

A call that cannot be decrypted here waits until the worker stops, and its heartbeats repeat the last details: if its
attempt ended because of the missing key, it would count as lost.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from noetl_temporal.calls.credential_check import CredentialNames
from noetl_temporal.calls.heartbeats import heartbeating
from noetl_temporal.calls.interruptions import MIN_DELAY
from noetl_temporal.machine.call import ToolCall
from noetl_temporal.messages.frame import FRAME_ACTIVITY, FrameInput
from noetl_temporal.payloads.codec import UnreadValue
from noetl_temporal.payloads.encryption_codec import UndecryptableValue, missing_key_failure
from noetl_temporal.payloads.signed_converter import REFUSED, RefusedValue

__all__ = ["CallGuard"]

_log = logging.getLogger(__name__)


class CallGuard(Interceptor):
    """The interceptor that checks activities. Every worker with activities needs it."""

    def intercept_activity(
        self,
        next: ActivityInboundInterceptor,  # noqa: A002 - the base class names it so
    ) -> ActivityInboundInterceptor:
        """See temporalio.worker.Interceptor."""
        return _GuardedActivity(next)


class _GuardedActivity(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002
        details = activity.info().heartbeat_details
        undecryptable = next(
            (argument for argument in (*details, *input.args) if isinstance(argument, UndecryptableValue)), None
        )
        if undecryptable is not None and _must_wait(details):
            await _wait_for_shutdown(undecryptable, details)
        reason = _refusal(input)
        if reason is not None:
            raise ApplicationError(reason, type=REFUSED, non_retryable=True)
        return await super().execute_activity(input)


def _must_wait(details: Sequence[Any]) -> bool:
    """Whether the call waits here: its log cannot be read. Other calls are left to another worker (run_tool.py)."""
    return activity.info().activity_type == FRAME_ACTIVITY or any(
        isinstance(argument, UndecryptableValue) for argument in details
    )


async def _wait_for_shutdown(undecryptable: UndecryptableValue, details: Sequence[Any]) -> None:
    """Send heartbeats until the worker stops. Raises ApplicationError, so that another worker gets the call."""
    info = activity.info()
    _log.error("%s of %s waits: %s", info.activity_id, info.workflow_id, undecryptable.message)
    with heartbeating(lambda: activity.heartbeat(*details), is_urgent=False):
        await activity.wait_for_worker_shutdown()
    raise missing_key_failure(undecryptable, MIN_DELAY)


def _refusal(execution: ExecuteActivityInput) -> str | None:
    """Return why an activity is refused; None if it is accepted."""
    match execution.args:
        case [RefusedValue(reason)]:
            return reason
        case [ToolCall() | FrameInput() | UnreadValue() | UndecryptableValue() | CredentialNames()]:
            return None
        case _ if activity.info().is_local:
            return None
        case _:
            return f"{activity.info().activity_type} can only be called by a worker, with the input of that call"
