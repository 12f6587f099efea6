"""Problems for a person to solve: calls without a worker, failing workflow tasks (incidents), pauses, unread histories.

The first three block a run without ending it, and are read from Temporal: the description of a workflow has its pending
calls, its pending workflow task and its pause, the description of a queue has the workers that poll it, and the end of
a history has the failure of the last workflow task. Loops are described as well, as they are workflows of their own.
Why a history cannot be read is in the mirror's tables (log_summary.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

import msgspec
from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import (
    EventType,
    PendingActivityState,
    PendingWorkflowTaskState,
    TaskQueueType,
)
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import (
    DescribeTaskQueueRequest,
    DescribeWorkflowExecutionResponse,
    GetWorkflowExecutionHistoryReverseRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from noetl_temporal.control.paused_workflows import is_paused, unpause_command
from noetl_temporal.mirror.decryption import decrypt_event
from noetl_temporal.mirror.incidents import NO_INCIDENT, cause_of
from noetl_temporal.mirror.read import ReadProblem
from noetl_temporal.naming import PAUSE_REASON, WORKFLOW_QUEUE, activity_type, tool_queue
from noetl_temporal.utc_time import utc_text

__all__ = ["RunProblem", "read_run_problems", "unread_history_problem"]

MIN_WAIT = timedelta(seconds=3)
"""Tasks that have waited for less than this are not reported."""

MAX_POLL_AGE = timedelta(seconds=75)
"""A worker whose last poll is older has stopped: a poll lasts a minute. Temporal lists pollers for five minutes."""

MAX_WORKFLOWS = 50
"""The maximum number of workflows that are described, as this happens every few seconds."""

MAX_LAST_EVENTS = 20
"""How many events at the end of a history are searched for the last failure."""

_CANCEL = "; or stop it with `noetl cancel {id}`"
_REMEDIES = {
    "nondeterminism": "this build cannot replay the run; deploy one that can, or end it with `noetl terminate {id}`",
    "storage": "the run continues when Postgres is back" + _CANCEL,
    "missing_key": "give all workers the same encryption keys (NOETL_ENCRYPTION_KEYS) and restart them" + _CANCEL,
    "missing_value": "give the workers the Postgres in which the value was stored (NOETL_POSTGRES)" + _CANCEL,
}
_DEPLOY_A_FIX = "the run continues when a fixed build is deployed" + _CANCEL
"""The remedy for all other errors of a build."""

_ACTIVITY, _WORKFLOW = TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY, TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW


class RunProblem(msgspec.Struct, frozen=True):
    """A problem that a person has to solve: its description, when it began (ISO 8601), and what to do."""

    kind: Literal["no_worker", "incident", "paused_run", "paused_call", "unread_history"]
    message: str
    since: str
    remedy: str

    def line(self) -> str:
        """Return the message and the remedy."""
        return f"{self.message}: {self.remedy}"


class _Queue(NamedTuple):
    name: str
    type: TaskQueueType.ValueType
    work_name: str
    """What its workers serve, for messages: a tool kind, or ``workflows``."""


async def read_run_problems(client: Client, workflow_id: str, execution_id: int) -> list[RunProblem]:
    """Read the current problems of a run from Temporal, incidents first. Raises RPCError."""
    incidents: list[RunProblem] = []
    waiting_queues: dict[_Queue, datetime] = {}
    pauses: list[RunProblem] = []
    async for description in _descriptions(client, workflow_id):
        incident = await _incident(client, description, execution_id)
        incidents += [incident] if incident else []
        pauses += [*_paused_run(description), *_paused_calls(description)]
        for queue, since in _unstarted_tasks(description):
            waiting_queues[queue] = min(since, waiting_queues.get(queue, since))
    no_workers = [
        _no_worker_problem(queue, since)
        for queue, since in waiting_queues.items()
        if not await _is_polled(client, queue)
    ]
    return [*incidents, *no_workers, *pauses]


async def _descriptions(client: Client, workflow_id: str) -> AsyncIterator[DescribeWorkflowExecutionResponse]:
    """Yield Temporal's description of the workflow and of those it has started."""
    ids = deque([workflow_id])
    for _ in range(MAX_WORKFLOWS):
        if not ids:
            return
        try:
            description = (await client.get_workflow_handle(ids.popleft()).describe()).raw_description
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            continue
        ids += [child.workflow_id for child in description.pending_children]
        yield description


# ---- tasks without a worker --------------------------------------------------------------------------------------


def _unstarted_tasks(description: DescribeWorkflowExecutionResponse) -> Iterator[tuple[_Queue, datetime]]:
    now = datetime.now(UTC)
    for call in description.pending_activities:
        since = _ready_since(call)
        if call.state == PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED and now - since > MIN_WAIT:
            yield _queue_of(call), since
    task = description.pending_workflow_task
    if task.state == PendingWorkflowTaskState.PENDING_WORKFLOW_TASK_STATE_SCHEDULED:
        since = _to_datetime(task.original_scheduled_time)
        if now - since > MIN_WAIT:
            yield _Queue(description.execution_config.task_queue.name, _WORKFLOW, "workflows"), since


def _ready_since(call: PendingActivityInfo) -> datetime:
    """Return when the attempt can start; during a backoff, that is in the future."""
    return _to_datetime(
        call.next_attempt_schedule_time if call.HasField("next_attempt_schedule_time") else call.scheduled_time
    )


def _queue_of(call: PendingActivityInfo) -> _Queue:
    kind = call.activity_type.name.removeprefix(activity_type(""))
    name = call.activity_options.task_queue.name or tool_queue(kind)
    return _Queue(name, _ACTIVITY, kind)


async def _is_polled(client: Client, queue: _Queue) -> bool:
    request = DescribeTaskQueueRequest(
        namespace=client.namespace, task_queue=TaskQueue(name=queue.name), task_queue_type=queue.type
    )
    response = await client.workflow_service.describe_task_queue(request)
    oldest_poll = datetime.now(UTC) - MAX_POLL_AGE
    return any(_to_datetime(poller.last_access_time) > oldest_poll for poller in response.pollers)


def _no_worker_problem(queue: _Queue, since: datetime) -> RunProblem:
    commands = {WORKFLOW_QUEUE: "noetl worker", tool_queue(queue.work_name): f"noetl worker --tools {queue.work_name}"}
    command = "noetl worker" if queue.work_name == "workflows" else commands.get(queue.name)
    return RunProblem(
        "no_worker",
        f"waiting for a worker for {queue.work_name} (none is polling)",
        since.isoformat(timespec="seconds"),
        f"start one with `{command}`" if command else f"start one for the queue {queue.name}",
    )


# ---- pauses in Temporal ------------------------------------------------------------------------------------------


def _paused_run(description: DescribeWorkflowExecutionResponse) -> Iterator[RunProblem]:
    """Yield the problem of a workflow that is paused in Temporal: of the run, a loop or a called playbook."""
    info = description.workflow_execution_info
    if is_paused(info):
        pause = description.workflow_extended_info.pause_info
        since, workflow_id = _to_datetime(pause.paused_time), info.execution.workflow_id
        yield RunProblem(
            "paused_run",
            f"{workflow_id} is paused in Temporal {_pause_text(since, pause.identity, pause.reason)}",
            since.isoformat(timespec="seconds"),
            f"`{unpause_command(workflow_id)}`",
        )


def _paused_calls(description: DescribeWorkflowExecutionResponse) -> Iterator[RunProblem]:
    """Yield the calls paused with Temporal's UI or command; those paused by ``noetl pause`` resume with their run."""
    workflow_id = description.workflow_execution_info.execution.workflow_id
    for call in description.pending_activities:
        if call.paused and call.pause_info.manual.reason != PAUSE_REASON:
            since, pause = _to_datetime(call.pause_info.pause_time), call.pause_info.manual
            yield RunProblem(
                "paused_call",
                f"the call {call.activity_id} is paused in Temporal {_pause_text(since, pause.identity, pause.reason)}",
                since.isoformat(timespec="seconds"),
                f"`temporal activity unpause --workflow-id {workflow_id} --activity-id {call.activity_id}`",
            )


def _pause_text(since: datetime, identity: str, reason: str) -> str:
    pause = f"since {utc_text(since)}" + (f" by {identity}" if identity else "")
    return f"{pause} ({reason})" if reason else pause


# ---- workflow tasks that fail ------------------------------------------------------------------------------------


async def _incident(
    client: Client, description: DescribeWorkflowExecutionResponse, execution_id: int
) -> RunProblem | None:
    task = description.pending_workflow_task
    if task.attempt < 2:
        return None
    failure_event = _last_failure(await _last_events(client, description.workflow_execution_info.execution))
    if failure_event is None:
        return None
    failure_event = await decrypt_event(failure_event, client.data_converter)
    attributes = failure_event.workflow_task_failed_event_attributes
    if attributes.cause in NO_INCIDENT:
        return None
    cause, reasons = cause_of(attributes), ": ".join(_reasons(attributes.failure))[:300]
    cause_text = cause.replace("_", " ")
    since = _to_datetime(failure_event.event_time)
    return RunProblem(
        "incident",
        f"incident since {utc_text(since)}, attempt {task.attempt}: {cause_text}{': ' * bool(reasons)}{reasons}",
        since.isoformat(timespec="seconds"),
        _REMEDIES.get(cause, _DEPLOY_A_FIX).format(id=execution_id),
    )


def _reasons(failure: Failure) -> Iterator[str]:
    """Yield the first line of a failure and of each of its causes."""
    yield from failure.message.strip().splitlines()[:1]
    if failure.HasField("cause"):
        yield from _reasons(failure.cause)


async def _last_events(client: Client, execution: WorkflowExecution) -> Iterable[HistoryEvent]:
    request = GetWorkflowExecutionHistoryReverseRequest(
        namespace=client.namespace, execution=execution, maximum_page_size=MAX_LAST_EVENTS
    )
    return (await client.workflow_service.get_workflow_execution_history_reverse(request)).history.events


def _last_failure(events: Iterable[HistoryEvent]) -> HistoryEvent | None:
    """Return the latest workflow task that failed since the last success; None if none did. Timeouts do not count.

    ``events``: the newest first.
    """
    for event in events:
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
            return None
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
            return event
    return None


# ---- unread histories --------------------------------------------------------------------------------------------


def unread_history_problem(problem: ReadProblem) -> RunProblem:
    """Return the problem that the mirror cannot read the history of a run or loop."""
    return RunProblem(
        "unread_history",
        f"the event log of {problem.workflow_id} is incomplete: the mirror cannot read its history since "
        f"{utc_text(problem.since)}: {_first_line(problem.problem)}",
        problem.since.isoformat(timespec="seconds"),
        "the run itself is not affected; `noetl mirror problems` lists all such runs",
    )


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[0][:300]


def _to_datetime(stamp: Timestamp) -> datetime:
    return stamp.ToDatetime(tzinfo=UTC)
