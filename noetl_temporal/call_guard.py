"""Restricts the activities that Temporal can start on a worker to tools and frames, with valid signatures.

Anyone who can connect to Temporal can schedule any activity of a worker. The local activities, which store and load
values and end chunks, run only if a workflow of the same process calls them.
"""

from __future__ import annotations

from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from noetl_temporal.codec import Unread
from noetl_temporal.frames.wire import FrameInput
from noetl_temporal.machine.call import ToolCall
from noetl_temporal.signed_converter import REFUSED, Refused

__all__ = ["CallGuard"]


class CallGuard(Interceptor):
    """Every worker that has activities needs it."""

    def intercept_activity(
        self,
        next: ActivityInboundInterceptor,  # noqa: A002 - the base class names it so
    ) -> ActivityInboundInterceptor:
        """See temporalio.worker.Interceptor."""
        return _Guarded(next)


class _Guarded(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002
        why = _problem(input)
        if why is not None:
            raise ApplicationError(why, type=REFUSED, non_retryable=True)
        return await super().execute_activity(input)


def _problem(given: ExecuteActivityInput) -> str | None:
    match given.args:
        case [Refused(why)]:
            return why
        case [ToolCall() | FrameInput() | Unread()]:
            return None
        case _ if activity.info().is_local:
            return None
        case _:
            return f"{activity.info().activity_type} can only be called by a worker, with the input of that call"
