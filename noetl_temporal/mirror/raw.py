"""Reads history events as the server has them: their rows in noetl.history, and the links from one run to others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.enums.v1 import ContinueAsNewInitiator, EventType, WorkflowTaskFailedCause
from temporalio.api.history.v1 import HistoryEvent

from noetl_temporal.naming import LOOP_WORKFLOW, PLAYBOOK_WORKFLOW

__all__ = [
    "WorkflowRun",
    "continued_run",
    "ended_children",
    "ends_run",
    "from_row",
    "is_reset",
    "linked_runs",
    "milliseconds",
    "split_final",
    "split_last_batch",
    "to_row",
]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ENDS_BY_WORKFLOW_TASK = {
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW,
}
_RUN_ENDS = _ENDS_BY_WORKFLOW_TASK | {
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED,
}


class WorkflowRun(NamedTuple):
    """One run of one workflow, which has its own history."""

    namespace: str
    workflow_id: str
    run_id: str
    workflow_type: str


def milliseconds(time: Timestamp) -> int:
    """Return the milliseconds since the Unix epoch."""
    return time.seconds * 1000 + time.nanos // 1_000_000


def to_row(event: HistoryEvent) -> tuple[int, str, datetime, bytes]:
    """Return the row of noetl.history: (event_id, event_type, event_time, proto)."""
    name = EventType.Name(event.event_type).removeprefix("EVENT_TYPE_")
    time = _EPOCH + timedelta(seconds=event.event_time.seconds, microseconds=event.event_time.nanos // 1000)
    return event.event_id, name, time, event.SerializeToString(deterministic=True)


def from_row(proto: bytes) -> HistoryEvent:
    """Return the event that ``to_row`` stored."""
    return HistoryEvent.FromString(proto)


def ends_run(events: Sequence[HistoryEvent]) -> bool:
    """Whether the run ends with these events."""
    return bool(events) and events[-1].event_type in _RUN_ENDS


def split_final(
    pending: Sequence[HistoryEvent], events: Sequence[HistoryEvent]
) -> tuple[Sequence[HistoryEvent], Sequence[HistoryEvent]]:
    """Return the events that are final, and those that become final only when another event follows.

    ``pending`` is the second list of the previous call. While a workflow task is retried, the server appends its
    WORKFLOW_TASK_SCHEDULED and STARTED to the response, but writes them to history only when the task completes. Events
    that occur in between get their ids. Such an event looks like a final one, so a workflow task at the end of a
    response stays pending.
    """
    if events:
        pending = [event for event in pending if event.event_id < events[0].event_id]
    all_events = [*pending, *events]
    end = len(all_events)
    for kind in (EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED, EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED):
        if end and all_events[end - 1].event_type == kind:
            end -= 1
    return all_events[:end], all_events[end:]


def split_last_batch(
    events: Sequence[HistoryEvent],
) -> tuple[Sequence[HistoryEvent], Sequence[HistoryEvent]]:
    """Return the events before the last batch of a closed run, and that batch, which is empty if the run is open."""
    if not ends_run(events):
        return events, ()
    start = len(events) - 1
    if events[-1].event_type in _ENDS_BY_WORKFLOW_TASK:
        task_completed = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
        start = max((index for index, event in enumerate(events) if event.event_type == task_completed), default=0)
    return events[:start], events[start:]


def continued_run(run: WorkflowRun, event: HistoryEvent) -> WorkflowRun | None:
    """Return the run that continued as this one, from the first event of this one; None if there is none."""
    attributes = event.workflow_execution_started_event_attributes
    if attributes.initiator != ContinueAsNewInitiator.CONTINUE_AS_NEW_INITIATOR_WORKFLOW:
        return None
    return run._replace(run_id=attributes.continued_execution_run_id)


def is_reset(event: HistoryEvent) -> bool:
    """Whether a reset wrote this event into the run that it created; a later reset may have copied it into another."""
    cause = event.workflow_task_failed_event_attributes.cause
    return cause == WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW


def linked_runs(run: WorkflowRun, events: Iterable[HistoryEvent]) -> list[WorkflowRun]:
    """Return the playbooks and loops to which the events link: children, and the run that continues this one."""
    all_links = [link for event in events for link in _linked_runs(run, event)]
    return [link for link in all_links if link.workflow_type in (PLAYBOOK_WORKFLOW, LOOP_WORKFLOW)]


def ended_children(events: Iterable[HistoryEvent]) -> set[str]:
    """Return the run ids of the children that ended in these events."""
    return {run_id for event in events if (run_id := _ended_child(event))}


def _ended_child(event: HistoryEvent) -> str:
    return (
        event.child_workflow_execution_completed_event_attributes.workflow_execution.run_id
        or event.child_workflow_execution_failed_event_attributes.workflow_execution.run_id
        or event.child_workflow_execution_canceled_event_attributes.workflow_execution.run_id
        or event.child_workflow_execution_terminated_event_attributes.workflow_execution.run_id
        or event.child_workflow_execution_timed_out_event_attributes.workflow_execution.run_id
    )


def _linked_runs(run: WorkflowRun, event: HistoryEvent) -> Iterable[WorkflowRun]:
    if event.event_type == EventType.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED:
        child = event.child_workflow_execution_started_event_attributes
        yield WorkflowRun(
            child.namespace or run.namespace,
            child.workflow_execution.workflow_id,
            child.workflow_execution.run_id,
            child.workflow_type.name,
        )
    next_run_id = _next_run_id(event)
    if next_run_id:
        yield run._replace(run_id=next_run_id)


def _next_run_id(event: HistoryEvent) -> str:
    """Return the id of the run that follows this one: by continue-as-new, or by a retry or a schedule of the whole
    workflow; empty if the event names none.
    """
    return (
        event.workflow_execution_continued_as_new_event_attributes.new_execution_run_id
        or event.workflow_execution_completed_event_attributes.new_execution_run_id
        or event.workflow_execution_failed_event_attributes.new_execution_run_id
        or event.workflow_execution_timed_out_event_attributes.new_execution_run_id
    )
