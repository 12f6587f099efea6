"""Keeps the time that a workflow sees, and the order of its facts, the same in every replay.

The ids of events contain that time. If it differed in a replay, the replay would create other ids than those in
history, and later events would have parents that do not exist.

The SDK treats a workflow task without a command as a part of the next one, if no event is between them: the workflow
sees what both have received at once, at the time of the later one. That happens in two cases.

* A workflow task completes while a local activity runs: to answer a query, or as a heartbeat. So a local activity
  starts together with a command that changes nothing.
* A request (an update) is received next. A worker that replays the run to receive it sees both tasks as one, but a
  later replay finds the accepted request and separates them. So a playbook adds such a command to a task if no other
  follows from one of its facts. Loops receive no requests.

If a local activity ends while its workflow task is being completed, the workflow receives the result in the next task,
but in a replay already in the first. So a result soon after the start gets the time of the start.
"""

from __future__ import annotations

from typing import Any

from temporalio import workflow
from temporalio.worker import (
    StartLocalActivityInput,
    WorkflowOutboundInterceptor,
)

from noetl_temporal.naming import TIME_MEMO
from noetl_temporal.workflows.outbound_interceptor import OutboundInterceptor

__all__ = ["SteadyTimeInterceptor", "add_command", "steady_end"]

SOON_MS = 5_000
"""More than the time between a workflow task and one that follows immediately. Later ends keep their own time, as a
database may be unavailable for long."""


def steady_end(start: int, end: int) -> int:
    """Return the time of the end of a local activity, whose result the workflow receives at ``end``; all in
    milliseconds since the epoch.
    """
    return start if end - start < SOON_MS else end


def add_command() -> None:
    """Add a command that changes nothing to the workflow task."""
    workflow.upsert_memo({TIME_MEMO: None})


class _Outbound(WorkflowOutboundInterceptor):
    def start_local_activity(self, input: StartLocalActivityInput) -> workflow.ActivityHandle[Any]:  # noqa: A002
        add_command()
        return super().start_local_activity(input)


class SteadyTimeInterceptor(OutboundInterceptor):
    """Starts every local activity together with a command. Every worker of the workflows needs it."""

    outbound = _Outbound
