"""How an activity ended, with a report or without one, as attempt records (shape: machine/call.py AttemptRecord)."""

from __future__ import annotations

from temporalio.api.enums.v1 import EventType
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent

from noetl_temporal.mirror.attempts import write_attempts
from noetl_temporal.mirror.call import Call, Seen
from noetl_temporal.mirror.event_row import RowWriter
from noetl_temporal.mirror.payloads import Json, as_list, as_map, first
from noetl_temporal.mirror.raw import milliseconds

__all__ = ["references", "write_call"]

_ENDS = {
    EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED,
    EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED,
    EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT,
    EventType.EVENT_TYPE_ACTIVITY_TASK_CANCELED,
}


def references(event: HistoryEvent) -> tuple[int, int] | None:
    """(schedule, start) of the activity that ends with this event, 0 where there was none; None for any other event."""
    kind = event.WhichOneof("attributes")
    if event.event_type not in _ENDS or kind is None:
        return None
    attributes = getattr(event, kind)
    return attributes.scheduled_event_id, attributes.started_event_id


def write_call(writer: RowWriter, scheduled: HistoryEvent, started: HistoryEvent | None) -> None:
    """Write the rows of the call whose activity ends with the writer's event."""
    given = as_map(first(scheduled.activity_task_scheduled_event_attributes.input.payloads))
    if given is not None and "event_id" in given:
        seen = _seen(scheduled, started, writer.event)
        records, outcome = _report(writer.event, seen)
        write_attempts(writer, Call(given, writer.state.loop_id), seen, records, outcome)


def _seen(scheduled: HistoryEvent, started: HistoryEvent | None, closed: HistoryEvent) -> Seen:
    if started is None:
        return Seen(milliseconds(scheduled.event_time), None, milliseconds(closed.event_time), 1, "")
    attributes = started.activity_task_started_event_attributes
    return Seen(
        milliseconds(scheduled.event_time),
        milliseconds(started.event_time),
        milliseconds(closed.event_time),
        attributes.attempt,
        attributes.identity,
    )


def _report(event: HistoryEvent, seen: Seen) -> tuple[list[dict[str, Json]], Json]:
    """(one record an attempt, the last one's outcome). Without a report, what the server knows of the last attempt."""
    match event.event_type:
        case EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
            return _told(first(event.activity_task_completed_event_attributes.result.payloads), seen)
        case EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED:
            return [_failed(event.activity_task_failed_event_attributes.failure, seen)], None
        case EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT:
            return _timed_out(event.activity_task_timed_out_event_attributes.failure, seen), None
        case _:
            return [_record(seen, "cancelled")], None


def _told(given: Json, seen: Seen) -> tuple[list[dict[str, Json]], Json]:
    """A report without records, or one that lies elsewhere, still tells that an attempt ended."""
    report = as_map(given)
    if report is None:
        return [_record(seen, "ok")], given
    outcome: dict[str, Json] = report["outcome"]
    alone = _record(seen, outcome["status"], outcome.get("error"))
    return report.get("attempts") or [alone], outcome


def _failed(failure: Failure, seen: Seen) -> dict[str, Json]:
    error = {"kind": failure.application_failure_info.type or "internal", "message": failure.message}
    return _record(seen, "error", {**error, "traceback": failure.stack_trace or None})


def _timed_out(failure: Failure, seen: Seen) -> list[dict[str, Json]]:
    """The records that came with the last heartbeat; the attempt that never completed its own is lost."""
    records = as_list(first(failure.timeout_failure_info.last_heartbeat_details.payloads)) or []
    if records and records[-1]["number"] == seen.attempt:
        return records
    return [*records, _record(seen, "lost", {"message": failure.message})]


def _record(seen: Seen, status: str, error: Json = None) -> dict[str, Json]:
    """A record out of what the server saw."""
    started = seen.closed if seen.started is None else seen.started
    return {"number": seen.attempt, "started": started, "ended": seen.closed, "status": status, "error": error}
