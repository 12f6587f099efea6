"""Reads the calls of playbooks from a history. Each is a child workflow, whose id contains the id of the call. The task
that made the call is in the events of the log in the same history.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHistory
from temporalio.converter import DataConverter

from noetl_compiler.language.tools import PLAYBOOK
from noetl_temporal.machine.call import AttemptRecord, PlainOutcome, ToolCall, ToolReport
from noetl_temporal.machine.failures import error_outcome
from noetl_temporal.messages.run_input import RunInput, RunReport
from noetl_temporal.mirror.decryption import decrypt_event
from noetl_temporal.mirror.event_row import EventRow
from noetl_temporal.mirror.payloads import with_plain_values
from noetl_temporal.mirror.raw import WorkflowRun
from noetl_temporal.mirror.rows import fold, initial_state
from noetl_temporal.naming import DETACHED_MEMO, PLAYBOOK_WORKFLOW, child_workflow_id
from noetl_temporal.workflows.sub_playbooks import called_run_info, failure_outcome

__all__ = ["PlaybookCall", "playbook_calls"]


class PlaybookCall(NamedTuple):
    """A call of a playbook. ``report`` is None if it was cancelled, ``scheduled`` is in Unix milliseconds."""

    call: ToolCall
    report: ToolReport | None
    scheduled: int


async def playbook_calls(history: WorkflowHistory, converter: DataConverter) -> AsyncIterator[PlaybookCall]:
    """Yield the calls of playbooks that one workflow made."""
    starts = {
        event.event_id: event
        for event in history.events
        if event.start_child_workflow_execution_initiated_event_attributes.workflow_type.name == PLAYBOOK_WORKFLOW
    }
    if not starts:
        return
    tasks = await _tasks(history, converter)
    ends = {_initiated_id(event): event for event in history.events if _initiated_id(event) in starts}
    for event_id, start in starts.items():
        workflow_id = start.start_child_workflow_execution_initiated_event_attributes.workflow_id
        task_start, task_end = tasks[workflow_id]
        call = ToolCall(
            workflow_id,
            workflow_id,
            str(task_start.meta["step"]),
            task_start.node_name,
            PLAYBOOK,
            task_start.event_id,
            iteration=task_start.meta.get("iteration"),
            page=task_start.meta.get("page"),
        )
        outcome = await _outcome(start, ends.get(event_id), task_end, converter)
        attempt = AttemptRecord(started=task_start.at, ended=task_end.at if task_end else None)
        report = None if outcome is None else ToolReport(outcome, attempts=(attempt,), is_decided=False)
        yield PlaybookCall(call, report, start.event_time.ToMilliseconds())


_ENDS = ("task.done", "task.failed", "task.cancelled")


async def _tasks(history: WorkflowHistory, converter: DataConverter) -> dict[str, tuple[EventRow, EventRow | None]]:
    """Return the events that start and end the task of each called workflow, by workflow id."""
    events = [await with_plain_values(await decrypt_event(event, converter), converter) for event in history.events]
    attributes = events[0].workflow_execution_started_event_attributes
    run = WorkflowRun("", history.workflow_id, history.run_id, attributes.workflow_type.name)
    rows = fold(initial_state(run, events[0]), events, {event.event_id: event for event in events})
    task_rows = [row for row in rows if row.node_type == PLAYBOOK and "task_run_id" in row.meta]
    ends = {row.meta["task_run_id"]: row for row in task_rows if row.event_type in _ENDS}
    return {
        child_workflow_id(history.workflow_id, *str(row.meta["task_run_id"]).split("/")): (
            row,
            ends.get(row.meta["task_run_id"]),
        )
        for row in task_rows
        if row.event_type == "task.started"
    }


def _initiated_id(event: HistoryEvent) -> int:
    """Return the id of the event that started the child which this event ends; 0 for other events."""
    return (
        event.child_workflow_execution_completed_event_attributes.initiated_event_id
        or event.child_workflow_execution_failed_event_attributes.initiated_event_id
        or event.child_workflow_execution_canceled_event_attributes.initiated_event_id
        or event.child_workflow_execution_terminated_event_attributes.initiated_event_id
        or event.child_workflow_execution_timed_out_event_attributes.initiated_event_id
    )


async def _outcome(
    start: HistoryEvent, end: HistoryEvent | None, task_end: EventRow | None, converter: DataConverter
) -> PlainOutcome | None:
    """Return the outcome of the call; None if it was cancelled."""
    attributes = start.start_child_workflow_execution_initiated_event_attributes
    run_input: RunInput
    report: RunReport
    [run_input] = await converter.decode(attributes.input.payloads[:1], [RunInput])
    if DETACHED_MEMO in attributes.memo.fields:
        return {"status": "ok", "result": called_run_info(run_input, attributes.workflow_id)}
    if end is not None and (payloads := end.child_workflow_execution_completed_event_attributes.result.payloads):
        [report] = await converter.decode(payloads[:1], [RunReport])
        return {"status": "ok", "result": report.result}
    if task_end is None or task_end.event_type != "task.failed":
        return None
    if end is not None and end.HasField("child_workflow_execution_failed_event_attributes"):
        failure = end.child_workflow_execution_failed_event_attributes.failure
        return failure_outcome(run_input.path, await converter.decode_failure(failure))
    return error_outcome("timeout", str(task_end.error))
