"""Terminates the children that a run started after the point to which it was reset, and chunks that were reset in vain.

A reset copies the history up to that point into a new run, and terminates the old one. The server then ignores the
parent close policy of children: they continue. Children whose start is in the copied history belong to the new run. A
chunk, or a playbook that is waited for, that the old run started later would continue its calls until the new run
starts a child with the same id.

So the first workflow task after a reset starts a local activity that terminates those children. It finds them in
Temporal's visibility list, because the history of the new run does not name them; a child that is not listed yet
continues. So does a playbook that is not waited for.

A chunk may be reset without its playbook. If it had ended before, its playbook has its report already and accepts no
other, so the activity terminates the chunk: the outcomes of its calls would be lost, and its event ids belong to the
next chunk. The commands of the workflow task are sent after the activity has ended, so only those calls are repeated
that were in progress at the reset point.

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

_TIMEOUT = timedelta(seconds=10)
_RETRY = RetryPolicy(maximum_attempts=3)


def orphan_activity(client: Client) -> Callable[..., Any]:
    """Return the local activity. Every worker of workflows needs it."""

    @activity.defn(name=END_ORPHANS)
    async def terminate_orphans(child_ids: list[str]) -> int:
        """Terminate the open children that are not in ``child_ids`` and that another run started, and this run if it is
        a chunk that its playbook does not wait for. Returns the number of terminated runs.
        """
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
    """Start the local activity. ``child_ids`` are the workflow ids of the children of this run, which are not
    terminated.
    """
    return workflow.start_local_activity(
        END_ORPHANS,
        list(child_ids),
        result_type=int,
        start_to_close_timeout=_TIMEOUT,
        retry_policy=_RETRY,
        summary="end what the run before the reset started",
    )


@runtime_checkable
class _Resettable(Protocol):
    """A workflow that has children to terminate after a reset."""

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
