"""Keeps the time that a workflow sees the same in every replay, even if it runs local activities.

The ids of events contain that time. If it differed in a replay, the replay would create other ids than those in
history, and later events would have parents that do not exist.

A workflow task may complete while a local activity runs: to answer a query, or as a heartbeat. This has two
consequences.

* If the task has no command, a replay by the SDK treats it as a part of the next task, so the workflow sees the time of
  the next one. So a local activity starts together with a command that changes nothing.
* If the activity ends while the task is being completed, the workflow receives the result in the next task, but in a
  replay already in the first. So a result soon after the start gets the time of the start.
"""

from __future__ import annotations

from typing import Any

from temporalio import workflow
from temporalio.worker import (
    StartLocalActivityInput,
    WorkflowOutboundInterceptor,
)

from noetl_temporal.naming import TIME_MEMO
from noetl_temporal.outbound_interceptor import OutboundInterceptor

__all__ = ["SteadyTimeInterceptor", "steady_end"]

SOON_MS = 5_000
"""More than the time between a workflow task and one that follows immediately. Later ends keep their own time, as a
database may be unavailable for long."""


def steady_end(start: int, end: int) -> int:
    """Return the time of the end of a local activity, whose result the workflow receives at ``end``; all in
    milliseconds since the epoch.
    """
    return start if end - start < SOON_MS else end


class _Outbound(WorkflowOutboundInterceptor):
    def start_local_activity(self, input: StartLocalActivityInput) -> workflow.ActivityHandle[Any]:  # noqa: A002
        workflow.upsert_memo({TIME_MEMO: None})
        return super().start_local_activity(input)


class SteadyTimeInterceptor(OutboundInterceptor):
    """Starts every local activity together with a command. Every worker of the workflows needs it."""

    outbound = _Outbound
