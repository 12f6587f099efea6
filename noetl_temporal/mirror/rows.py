"""Derives the rows of NoETL's log from Temporal's history: a pure fold.

How it works. ``fold`` takes the events of a run in order, with the state after the previous events, and returns the
rows that they add. There are two kinds of rows:

* domain events, which the interpreter wrote and which travel through history (the trail): in the header of the
  activity or child that was started next, where there are many in a marker, at the run's end in its result, failure or
  memo, at continue-as-new in its input;
* derived rows, which are not in history: the attempts of a tool call, and the end of a run that could not log its own.

The items of a frame have both kinds in the segments that its activity stored (frames.py).

The state is small: the end of an activity refers to its schedule and start, and those events are looked up (``needs``,
then ``earlier``) instead of being kept. So hundreds of calls in progress cost nothing. Folding any prefix, saving the
state as JSON, and folding the rest has the same result as folding all events.

The state lists what has started and not ended, so that the rows are complete if a run is stopped from outside
(ends.py). A run that continues another inherits its list.

A reset copies the history up to a point into a new run. Copied events give the rows that they gave in the run before,
under the same ids. What the run before did after that point is superseded: ``playbook.resumed`` names it, or
``loop.resumed`` where a loop's own workflow was reset. Its rows stay; ``noetl.superseded_events`` names them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent

from noetl_temporal.event_ids import millisecond_of
from noetl_temporal.mirror import incidents
from noetl_temporal.mirror.ends import close
from noetl_temporal.mirror.event_row import EventRow, RowWriter
from noetl_temporal.mirror.frames import is_frame, write_frame
from noetl_temporal.mirror.payloads import TRAIL, Json, as_map, first, input_of, marked, trail_of, value
from noetl_temporal.mirror.raw import WorkflowRun, is_reset
from noetl_temporal.mirror.reports import references, write_call
from noetl_temporal.mirror.retry_config import configs_of_run
from noetl_temporal.mirror.run_context import take_context
from noetl_temporal.mirror.run_state import RunState, above
from noetl_temporal.mirror.sanitise import sanitised

__all__ = ["UnreadableRunError", "begin", "fold", "needs"]

_RESETTER = "history-resetter"
"""The identity in the TERMINATED event of a run that a reset replaced by another."""

_PLAYBOOK_ENDS = ("playbook.completed", "playbook.failed", "playbook.cancelled")


class UnreadableRunError(Exception):
    """The run's input is not there to be read: give the mirror the data converter that the workers have."""


def begin(run: WorkflowRun, event: HistoryEvent, before: RunState | None = None) -> RunState:
    """Return the state before any row, from the decrypted first event of the run.

    ``before`` is the last state of the run that continued as this one. Raises UnreadableRunError.
    """
    given = input_of(event)
    if given is None:
        raise UnreadableRunError(f"{run.workflow_id} run {run.run_id}: {UnreadableRunError.__doc__}")
    loop: dict[str, Json] = given.get("input", {})
    source: dict[str, Json] = given["source"] if loop else given["graph"]["source"]
    state = RunState(
        namespace=run.namespace,
        workflow_id=run.workflow_id,
        run_id=run.run_id,
        execution_id=(loop or given)["execution_id"],
        path=source["path"],
        node=given["step"]["name"] if loop else source["path"],
        clock=above(max(given.get("after", 0), loop.get("after", 0))),
        slot=loop.get("slot", 0),
        loop_id=loop.get("loop_id", ""),
        loop_run=loop.get("run", ""),
        started=loop.get("event_id"),
        workload={} if loop else _workload(given),
        retry_configs=configs_of_run(given),
    )
    if before is not None:
        state.follows(before)
    return state


def _workload(given: dict[str, Json]) -> dict[str, Json]:
    """Return the playbook's defaults, templates as written, under what the request set. Of a stored value only its
    size.
    """
    kept: dict[str, dict[str, Json]] = given.get("kept", {})
    found = sanitised({**given["graph"].get("workload", {}).get("data", {}), **given.get("payload", {})})
    for place, one in kept.items():
        keys = [key.replace("~1", "/").replace("~0", "~") for key in place.split("/")[1:]]
        found = _with_size(found, keys, {"_truncated": True, "_size": one.get("bytes", 0)})
    return found


def _with_size(found: dict[str, Json], keys: Sequence[str], size: Json) -> dict[str, Json]:
    """Put the size in the place of a stored value, unless that has been left out or cut."""
    key, *inner = keys
    if key not in found:
        return found
    if not inner:
        return {**found, key: size}
    below = as_map(found[key])
    return found if below is None else {**found, key: _with_size(below, inner, size)}


def needs(events: Iterable[HistoryEvent]) -> set[int]:
    """Return the ids of earlier events that these events refer to; ``fold`` needs them."""
    return {id_ for event in events for id_ in references(event) or () if id_}


def fold(state: RunState, events: Sequence[HistoryEvent], earlier: Mapping[int, HistoryEvent]) -> list[EventRow]:
    """Return the rows that the events add, and update ``state``. ``earlier`` contains at least those in ``needs``."""
    rows: list[EventRow] = []
    for event in events:
        writer = RowWriter(state, event)
        _take(writer, earlier)
        rows += writer.rows
    return rows


def _take(writer: RowWriter, earlier: Mapping[int, HistoryEvent]) -> None:
    call = references(writer.event)
    if call is not None:
        scheduled, started = call
        if is_frame(earlier[scheduled]):
            write_frame(writer, earlier[scheduled])
        else:
            write_call(writer, earlier[scheduled], earlier.get(started))
    elif writer.event.event_type in _HANDLERS:
        _HANDLERS[writer.event.event_type](writer)


# ---- domain events ---------------------------------------------------------------------------------------------------


def _call_scheduled(writer: RowWriter) -> None:
    """A command's header carries what the machine wrote before it."""
    _write_trail(writer, _field(writer.event.activity_task_scheduled_event_attributes.header.fields))


def _child_initiated(writer: RowWriter) -> None:
    attributes = writer.event.start_child_workflow_execution_initiated_event_attributes
    _write_trail(writer, _field(attributes.header.fields))


def _memo_modified(writer: RowWriter) -> None:
    _write_trail(writer, _field(writer.event.workflow_properties_modified_event_attributes.upserted_memo.fields))


def _marker_recorded(writer: RowWriter) -> None:
    """Many events, or those that no command could carry: a marker with the result of a local activity."""
    _write_trail(writer, first(marked(writer.event.marker_recorded_event_attributes.details)))


def _field(fields: Mapping[str, Payload]) -> Json:
    return value(fields[TRAIL]) if TRAIL in fields else None


def _write_trail(writer: RowWriter, trail: Json) -> None:
    """Copy the events of a trail; one in storage that cannot be read is missing here, but not in noetl.history."""
    state = writer.state
    for event in trail_of(trail):
        if event["type"] == "playbook.execution.requested":
            state.started = event["id"]
        if not state.loop_id:
            take_context(state, event)
        state.ended = state.ended or event["type"] in _PLAYBOOK_ENDS
        state.paused = event["type"] == "playbook.paused" or (state.paused and event["type"] != "playbook.resumed")
        state.last = max(state.last, millisecond_of(event["id"]))
        writer.domain(event)


# ---- the end ---------------------------------------------------------------------------------------------------------


def _completed(writer: RowWriter) -> None:
    _write_trail(writer, _trail_of(first(writer.event.workflow_execution_completed_event_attributes.result.payloads)))
    close(writer, "completed", None)


def _failed(writer: RowWriter) -> None:
    failure = writer.event.workflow_execution_failed_event_attributes.failure
    _write_trail(writer, _trail_of(first(failure.application_failure_info.details.payloads)))
    close(writer, "failed", failure.message)


def _timed_out(writer: RowWriter) -> None:
    close(writer, "timed_out", "the workflow timed out")


def _cancelled(writer: RowWriter) -> None:
    """What the run reported of it is in its memo, changed just before (``_memo_modified``)."""
    close(writer, "cancelled", "the workflow was cancelled")


def _terminated(writer: RowWriter) -> None:
    attributes = writer.event.workflow_execution_terminated_event_attributes
    if attributes.identity != _RESETTER:
        close(writer, "terminated", f"the workflow was terminated: {attributes.reason or 'no reason given'}")


def _continued(writer: RowWriter) -> None:
    attributes = writer.event.workflow_execution_continued_as_new_event_attributes
    _write_trail(writer, _trail_of(first(attributes.input.payloads)))


def _trail_of(report: Json) -> Json:
    return (as_map(report) or {}).get("trail")


# ---- pauses in Temporal itself ---------------------------------------------------------------------------------------


def _paused(writer: RowWriter) -> None:
    """Loops have no such row: a person who pauses one alone sees it in the status of the run."""
    attributes = writer.event.workflow_execution_paused_event_attributes
    if not writer.state.loop_id:
        meta = {"by": attributes.identity, "reason": attributes.reason, "in_temporal": True}
        writer.of_run("playbook.paused", "PAUSED", meta=meta)


def _unpaused(writer: RowWriter) -> None:
    """A playbook that was paused by its own request before is still paused."""
    attributes = writer.event.workflow_execution_unpaused_event_attributes
    if not writer.state.loop_id and not writer.state.paused:
        meta = {"by": attributes.identity, "reason": attributes.reason, "in_temporal": True}
        writer.of_run("playbook.resumed", "RUNNING", meta=meta)


# ---- workflow tasks --------------------------------------------------------------------------------------------------


def _task_failed(writer: RowWriter) -> None:
    if is_reset(writer.event):
        _reset(writer)
    incidents.task_failed(writer)


def _reset(writer: RowWriter) -> None:
    """A reset shows as a failed workflow task in the new run. The run that is reset continues, even if its playbook had
    ended.

    What the run before wrote from ``event_id`` of its history on is superseded.
    """
    state, attributes = writer.state, writer.event.workflow_task_failed_event_attributes
    state.ended = False
    origin = {"base_run_id": attributes.base_run_id, "event_id": writer.event.event_id}
    reason = attributes.failure.message
    writer.of_run(f"{state.kind}.resumed", "RUNNING", meta={"reset": {**origin, "reason": reason}})


_HANDLERS: Mapping[int, Callable[[RowWriter], None]] = {
    EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED: _call_scheduled,
    EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED: _child_initiated,
    EventType.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED: _memo_modified,
    EventType.EVENT_TYPE_MARKER_RECORDED: _marker_recorded,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_PAUSED: _paused,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UNPAUSED: _unpaused,
    EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED: incidents.task_scheduled,
    EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED: incidents.task_started,
    EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED: incidents.task_completed,
    EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED: _task_failed,
    EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT: incidents.task_timed_out,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED: _completed,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED: _failed,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT: _timed_out,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED: _cancelled,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED: _terminated,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW: _continued,
}
