"""Terminates the children that a run started after the point to which it was reset.

A reset copies the history up to that point into a new run, and terminates the old one. The server does not end children
then, regardless of their parent close policy: the new run keeps those in its history. A chunk, or a playbook that
is waited for, that the old run started later would continue its calls, until the new run starts one with the same id.

So the first workflow task after a reset starts a local activity that terminates those children. It finds them by
visibility, because the history of the new run does not name them. One that visibility does not list yet continues. A
playbook that is not waited for continues.

A reset changes the workflow's random seed at the reset point, and so does every replay. A reset to the first workflow
task changes the seed before the workflow can register its callback, so the interceptor detects that case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Protocol, runtime_checkable

from temporalio import activity, workflow
from temporalio.client import Client, WorkflowHandle
from temporalio.common import RetryPolicy
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import (
    ExecuteWorkflowInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
    WorkflowOutboundInterceptor,
)

from noetl_temporal.naming import DETACHED_MEMO
from noetl_temporal.visibility import NOETL_WORKFLOWS, OPEN

__all__ = ["ResetInterceptor", "orphan_activity", "start_terminating_orphans"]

END_ORPHANS = "noetl.end-orphans"
REASON = "its playbook was reset to a point before it started"

_SECONDS = timedelta(seconds=10)
_RETRY = RetryPolicy(maximum_attempts=3)


def orphan_activity(client: Client) -> Callable[..., Any]:
    """Return the local activity. Every worker of workflows needs it."""

    @activity.defn(name=END_ORPHANS)
    async def terminate_orphans(child_ids: list[str]) -> int:
        """Terminate the running children that are not in ``child_ids`` and that another run started; return their
        number."""
        info, count = activity.info(), 0
        parent = (info.workflow_id or "").replace("'", "''")
        query = f"{NOETL_WORKFLOWS} AND {OPEN} AND ParentWorkflowId = '{parent}'"
        async for child in client.list_workflows(query):
            is_own = child.id in child_ids or child.raw_info.parent_execution.run_id == info.workflow_run_id
            if is_own or DETACHED_MEMO in await child.memo():
                continue
            count += await _terminate(client.get_workflow_handle(child.id, run_id=child.run_id))
        return count

    return terminate_orphans


async def _terminate(child: WorkflowHandle[Any, Any]) -> bool:
    """Terminate the workflow; return False if it has already ended."""
    try:
        await child.terminate(reason=REASON)
    except RPCError as error:
        if error.status != RPCStatusCode.NOT_FOUND:
            raise
        return False
    return True


def start_terminating_orphans(child_ids: Sequence[str]) -> workflow.ActivityHandle[int]:
    """Start the local activity; ``child_ids`` are the workflow ids of the children that this run has."""
    return workflow.start_local_activity(
        END_ORPHANS,
        list(child_ids),
        result_type=int,
        start_to_close_timeout=_SECONDS,
        retry_policy=_RETRY,
        summary="end chunks of the run before the reset",
    )


@runtime_checkable
class _Resettable(Protocol):
    """A workflow that begins chunks."""

    def on_reset(self, seed: int) -> None: ...


class ResetInterceptor(Interceptor):
    """Calls ``on_reset`` of a workflow that was reset to its first task."""

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,  # noqa: A002 - the base class names it so
    ) -> type[WorkflowInboundInterceptor]:
        """See temporalio.worker.Interceptor."""
        del input
        return _Inbound


class _Inbound(WorkflowInboundInterceptor):
    def init(self, outbound: WorkflowOutboundInterceptor) -> None:
        super().init(outbound)
        self._first_seed = workflow.random_seed()

    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:  # noqa: A002
        instance, seed = workflow.instance(), workflow.random_seed()
        if seed != self._first_seed and isinstance(instance, _Resettable):
            instance.on_reset(seed)
        return await super().execute_workflow(input)
