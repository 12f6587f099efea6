"""Derives the rows of NoETL's log from Temporal's history: a pure fold.

How it works. ``fold`` takes the events of a run in order, with the state after the previous events, and returns the
rows that they add. There are two kinds of rows:

* domain events, which the interpreter wrote into history (the trail): into the header of the activity or child that was
  started next; into a marker if there are many; at the end of the run into its result, failure or memo; at
  continue-as-new into the input of the next run;
* derived rows, which the interpreter did not write: the attempts of a tool call, and the end of a run that could not
  write its own.

The items of a frame have both kinds in the segments that its activity stored (frames.py).

The state is small, also with hundreds of calls in progress: the end of an activity refers to the events of its schedule
and start, which are looked up (``needed_event_ids``, then ``earlier_events``) and not part of the state. Folding any
prefix, saving the state as JSON, and folding the other events has the same result as folding all events.

The state lists what has started and not ended, so that the rows are complete if a run is stopped from outside
(ends.py). A run that continues another inherits its list.

A reset copies the history up to a point into a new run. Copied events give the same rows as in the former run, with the
same ids. What the former run did after that point is superseded. The row ``playbook.resumed``, or ``loop.resumed`` if
the workflow of a loop was reset, names the point. Superseded rows stay, and ``noetl.superseded_events`` lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent

from noetl_temporal.event_ids import millisecond_of
from noetl_temporal.mirror import incidents
from noetl_temporal.mirror.ends import write_ends
from noetl_temporal.mirror.event_row import EventRow, RowWriter
from noetl_temporal.mirror.event_types import PLAYBOOK_ENDS
from noetl_temporal.mirror.frames import is_frame, write_frame
from noetl_temporal.mirror.payloads import (
    Json,
    as_mapping,
    first_value,
    input_of,
    payload_value,
    trail_in_marker,
    trail_of,
)
from noetl_temporal.mirror.raw import WorkflowRun, is_reset
from noetl_temporal.mirror.reports import activity_event_ids, write_call
from noetl_temporal.mirror.retry_config import configs_of_run
from noetl_temporal.mirror.run_context import add_context
from noetl_temporal.mirror.run_state import RunState, clock_above
from noetl_temporal.mirror.sanitise import sanitise
from noetl_temporal.naming import REPORTED, TRAIL

__all__ = ["UnreadableRunError", "fold", "initial_state", "needed_event_ids"]

_RESETTER = "history-resetter"
"""The identity in the TERMINATED event of a run that a reset replaced by another. What was open ends in that run."""


class UnreadableRunError(Exception):
    """The run's input cannot be read: give the mirror the same data converter as the workers."""


def initial_state(run: WorkflowRun, event: HistoryEvent, previous: RunState | None = None) -> RunState:
    """Return the state before any row, from the decrypted first event of the run.

    ``previous`` is the last state of the run that continued as this one. Raises UnreadableRunError.
    """
    run_input = input_of(event)
    if run_input is None:
        raise UnreadableRunError(f"{run.workflow_id} run {run.run_id}: {UnreadableRunError.__doc__}")
    loop: dict[str, Json] = run_input.get("input", {})
    source: dict[str, Json] = run_input["source"] if loop else run_input["graph"]["source"]
    state = RunState(
        namespace=run.namespace,
        workflow_id=run.workflow_id,
        run_id=run.run_id,
        execution_id=(loop or run_input)["execution_id"],
        path=source["path"],
        node=run_input["step"]["name"] if loop else source["path"],
        clock=clock_above(max(run_input.get("after", 0), loop.get("after", 0))),
        slot=loop.get("slot", 0),
        loop_id=loop.get("loop_id", ""),
        loop_step_run_id=loop.get("step_run_id", ""),
        root_event_id=loop.get("event_id"),
        workload={} if loop else _workload(run_input),
        retry_configs=configs_of_run(run_input),
    )
    if previous is not None:
        state.inherit(previous)
    return state


def _workload(run_input: dict[str, Json]) -> dict[str, Json]:
    """Return the playbook's defaults, with templates as written, overridden by the payload. A stored value is replaced
    by its size.
    """
    stored_values: dict[str, dict[str, Json]] = run_input.get("stored_payload", {})
    workload = sanitise({**run_input["graph"].get("workload", {}).get("data", {}), **run_input.get("payload", {})})
    for path, reference in stored_values.items():
        keys = [key.replace("~1", "/").replace("~0", "~") for key in path.split("/")[1:]]
        workload = _put_size(workload, keys, {"_truncated": True, "_size": reference.get("bytes", 0)})
    return workload


def _put_size(mapping: dict[str, Json], keys: Sequence[str], size: Json) -> dict[str, Json]:
    """Replace a stored value by its size, unless the value was removed or is inside a truncated one."""
    key, *inner = keys
    if key not in mapping:
        return mapping
    if not inner:
        return {**mapping, key: size}
    inner_mapping = as_mapping(mapping[key])
    return mapping if inner_mapping is None else {**mapping, key: _put_size(inner_mapping, inner, size)}


def needed_event_ids(events: Iterable[HistoryEvent]) -> set[int]:
    """Return the ids of earlier events that these events refer to; ``fold`` needs them."""
    return {id_ for event in events for id_ in activity_event_ids(event) or () if id_}


def fold(state: RunState, events: Sequence[HistoryEvent], earlier_events: Mapping[int, HistoryEvent]) -> list[EventRow]:
    """Return the rows that the events add, and update ``state``. ``earlier_events`` has at least the events with the
    ``needed_event_ids``, by id.
    """
    rows: list[EventRow] = []
    for event in events:
        writer = RowWriter(state, event)
        _handle_event(writer, earlier_events)
        rows += writer.rows
    return rows


def _handle_event(writer: RowWriter, earlier_events: Mapping[int, HistoryEvent]) -> None:
    event_ids = activity_event_ids(writer.event)
    if event_ids is not None:
        schedule_event, start_event = earlier_events[event_ids[0]], earlier_events.get(event_ids[1])
        if is_frame(schedule_event):
            write_frame(writer, schedule_event)
        else:
            write_call(writer, schedule_event, start_event)
    elif writer.event.event_type in _HANDLERS:
        _HANDLERS[writer.event.event_type](writer)


# ---- domain events ---------------------------------------------------------------------------------------------------


def _on_call_scheduled(writer: RowWriter) -> None:
    """Write the events that the machine emitted before the command, which are in its header."""
    _write_trail(writer, _trail_in_fields(writer.event.activity_task_scheduled_event_attributes.header.fields))


def _on_child_initiated(writer: RowWriter) -> None:
    attributes = writer.event.start_child_workflow_execution_initiated_event_attributes
    _write_trail(writer, _trail_in_fields(attributes.header.fields))


def _on_memo_modified(writer: RowWriter) -> None:
    _write_trail(
        writer, _trail_in_fields(writer.event.workflow_properties_modified_event_attributes.upserted_memo.fields)
    )


def _on_marker_recorded(writer: RowWriter) -> None:
    """Write the events of a marker: many, or those that no command could carry, as the result of a local activity."""
    _write_trail(writer, first_value(trail_in_marker(writer.event.marker_recorded_event_attributes.details)))


def _trail_in_fields(fields: Mapping[str, Payload]) -> Json:
    return payload_value(fields[TRAIL]) if TRAIL in fields else None


def _write_trail(writer: RowWriter, trail: Json) -> None:
    """Write the events of a trail. A trail that is a Reference is missing in the log, but not in noetl.history."""
    state = writer.state
    for event in trail_of(trail):
        if event["type"] == "playbook.execution.requested":
            state.root_event_id = event["id"]
        if not state.loop_id:
            add_context(state, event)
        state.has_ended = state.has_ended or event["type"] in PLAYBOOK_ENDS
        state.is_paused = event["type"] == "playbook.paused" or (
            state.is_paused and event["type"] != "playbook.resumed"
        )
        state.last_event_ms = max(state.last_event_ms, millisecond_of(event["id"]))
        writer.add_domain_event(event)


# ---- the end ---------------------------------------------------------------------------------------------------------


def _on_completed(writer: RowWriter) -> None:
    _write_trail(
        writer, _trail_of(first_value(writer.event.workflow_execution_completed_event_attributes.result.payloads))
    )
    write_ends(writer, "completed", None)


def _on_failed(writer: RowWriter) -> None:
    failure = writer.event.workflow_execution_failed_event_attributes.failure
    _write_trail(writer, _trail_of(first_value(failure.application_failure_info.details.payloads)))
    write_ends(writer, "failed", failure.message)


def _on_timed_out(writer: RowWriter) -> None:
    write_ends(writer, "timed_out", "the workflow timed out")


def _on_cancelled(writer: RowWriter) -> None:
    """Write the ends. The trail was in the memo, which was changed just before (``_on_memo_modified``)."""
    write_ends(writer, "cancelled", "the workflow was cancelled")


def _on_terminated(writer: RowWriter) -> None:
    attributes = writer.event.workflow_execution_terminated_event_attributes
    if attributes.identity != _RESETTER and attributes.reason != REPORTED:
        write_ends(writer, "terminated", f"the workflow was terminated: {attributes.reason or 'no reason given'}")


def _on_continued(writer: RowWriter) -> None:
    attributes = writer.event.workflow_execution_continued_as_new_event_attributes
    _write_trail(writer, _trail_of(first_value(attributes.input.payloads)))


def _trail_of(report: Json) -> Json:
    return (as_mapping(report) or {}).get("trail")


# ---- pauses in Temporal itself ---------------------------------------------------------------------------------------


def _on_paused(writer: RowWriter) -> None:
    """Write the pause of a playbook. The pause of a single loop shows in the status of the run only."""
    attributes = writer.event.workflow_execution_paused_event_attributes
    if not writer.state.loop_id:
        meta = {"by": attributes.identity, "reason": attributes.reason, "in_temporal": True}
        writer.add_run_row("playbook.paused", "PAUSED", meta=meta)


def _on_unpaused(writer: RowWriter) -> None:
    """Write the resumption, unless the playbook is also paused by a request to it."""
    attributes = writer.event.workflow_execution_unpaused_event_attributes
    if not writer.state.loop_id and not writer.state.is_paused:
        meta = {"by": attributes.identity, "reason": attributes.reason, "in_temporal": True}
        writer.add_run_row("playbook.resumed", "RUNNING", meta=meta)


# ---- workflow tasks --------------------------------------------------------------------------------------------------


def _on_workflow_task_failed(writer: RowWriter) -> None:
    if is_reset(writer.event):
        _write_reset(writer)
    incidents.on_workflow_task_failed(writer)


def _write_reset(writer: RowWriter) -> None:
    """Write the reset that created this run, which history shows as a failed workflow task. The run continues, even if
    its playbook had ended.

    What the former run wrote from ``event_id`` of its history on is superseded.
    """
    state, attributes = writer.state, writer.event.workflow_task_failed_event_attributes
    state.has_ended = False
    origin = {"base_run_id": attributes.base_run_id, "event_id": writer.event.event_id}
    reason = attributes.failure.message
    writer.add_run_row(f"{state.kind}.resumed", "RUNNING", meta={"reset": {**origin, "reason": reason}})


_HANDLERS: Mapping[int, Callable[[RowWriter], None]] = {
    EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED: _on_call_scheduled,
    EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED: _on_child_initiated,
    EventType.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED: _on_memo_modified,
    EventType.EVENT_TYPE_MARKER_RECORDED: _on_marker_recorded,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_PAUSED: _on_paused,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UNPAUSED: _on_unpaused,
    EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED: incidents.on_workflow_task_scheduled,
    EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED: incidents.on_workflow_task_started,
    EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED: incidents.on_workflow_task_completed,
    EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED: _on_workflow_task_failed,
    EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT: incidents.on_workflow_task_timed_out,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED: _on_completed,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED: _on_failed,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT: _on_timed_out,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED: _on_cancelled,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED: _on_terminated,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW: _on_continued,
}
