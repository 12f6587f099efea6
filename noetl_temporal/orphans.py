"""Terminates what a reset leaves behind: the children that a run started after the point to which it was reset.

A reset copies the history up to that point into a new run, and terminates the old one. The server does not end children
then, regardless of their parent close policy: the new run keeps those in its history. A chunk, or a playbook that
is waited for, that the old run started later would continue its calls, until the new run starts one with the same id.

So the first workflow task after a reset starts a local activity that terminates those children. It finds them by
visibility, because the history of the new run does not name them. One that visibility does not list yet continues. A
playbook that is not waited for continues.

A chunk may be reset alone, beside its playbook. If it had ended, its playbook has its report already and takes no
other, so the activity terminates the chunk instead: its calls would be in no result, and its event ids belong to the
next chunk. The commands of the workflow task are sent when the activity has ended, so none of its calls is repeated but
those that were in progress at the reset point.

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

from noetl_temporal.naming import DETACHED_MEMO, LOOP_WORKFLOW, REPORTED
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
        """Terminate the running children that are not in ``child_ids`` and that another run started, and this run if
        it is a chunk that its playbook does not wait for; return the number of terminated runs."""
        info, count = activity.info(), 0
        own_run = client.get_workflow_handle(info.workflow_id or "", run_id=info.workflow_run_id)
        if info.workflow_type == LOOP_WORKFLOW and not await _is_awaited(client, own_run):
            count += await _terminate(own_run, REPORTED)
        parent = (info.workflow_id or "").replace("'", "''")
        query = f"{NOETL_WORKFLOWS} AND {OPEN} AND ParentWorkflowId = '{parent}'"
        async for child in client.list_workflows(query):
            is_own = child.id in child_ids or child.raw_info.parent_execution.run_id == info.workflow_run_id
            if is_own or DETACHED_MEMO in await child.memo():
                continue
            count += await _terminate(client.get_workflow_handle(child.id, run_id=child.run_id), REASON)
        return count

    return terminate_orphans


async def _is_awaited(client: Client, child: WorkflowHandle[Any, Any]) -> bool:
    """Whether the parent waits for the end of the child; True for a workflow without a parent."""
    parent_id = (await child.describe()).parent_id
    if parent_id is None:
        return True
    try:
        parent = await client.get_workflow_handle(parent_id).describe()
    except RPCError as error:
        if error.status != RPCStatusCode.NOT_FOUND:
            raise
        return False
    return child.id in {pending.workflow_id for pending in parent.raw_description.pending_children}


async def _terminate(workflow_run: WorkflowHandle[Any, Any], reason: str) -> bool:
    """Terminate the run; return False if it has already ended."""
    try:
        await workflow_run.terminate(reason=reason)
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
        summary="end what the run before the reset started",
    )


@runtime_checkable
class _Resettable(Protocol):
    """A workflow with children."""

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
