"""Keeps the time that a workflow sees the same in every replay, although local activities run.

The ids of events are made of that time, so a replay in which it differed would make other ids than those that history
carries: later events would name parents that do not exist.

A workflow task may be completed while a local activity runs: to answer a query, or as a heartbeat. Two things follow.

* If the task has no command, the SDK takes it for a part of the next one when it replays, and the workflow sees the
  time of the next one. So a local activity starts together with a command that changes nothing.
* If the activity ends while the task is being completed, the workflow learns of it in the next task, but in a replay
  already in the first. So a fact that comes soon after the start has the time of the start.
"""

from __future__ import annotations

from typing import Any

from temporalio import workflow
from temporalio.worker import (
    Interceptor,
    StartLocalActivityInput,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)

from noetl_temporal.naming import TIME_MEMO

__all__ = ["SteadyTimeInterceptor", "steady_end"]

SOON_MS = 5_000
"""More than passes between two workflow tasks of which the second follows at once. Later ends have their own time: a
database may be away for long."""


def steady_end(began: int, ended: int) -> int:
    """Return the time to note for the end of a local activity, of which the workflow learns at ``ended``; all in
    milliseconds since the epoch.
    """
    return began if ended - began < SOON_MS else ended


class SteadyTimeInterceptor(Interceptor):
    """Starts every local activity together with a command. Every worker of the workflows needs it."""

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,  # noqa: A002 - the base class names it so
    ) -> type[WorkflowInboundInterceptor]:
        """See temporalio.worker.Interceptor."""
        del input
        return _Inbound


class _Inbound(WorkflowInboundInterceptor):
    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        super().init(_Outbound(outbound))


class _Outbound(WorkflowOutboundInterceptor):
    def start_local_activity(self, input: StartLocalActivityInput) -> workflow.ActivityHandle[Any]:  # noqa: A002
        workflow.upsert_memo({TIME_MEMO: None})
        return super().start_local_activity(input)
