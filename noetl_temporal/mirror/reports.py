"""Reads the attempt records of a call (machine/call.py AttemptRecord) from the event that ends its activity.

A completed activity has a report with all records. For any other end there are only those in the failure or in the last
heartbeat, and what the server knows of the last attempt.
"""

from __future__ import annotations

from temporalio.api.enums.v1 import EventType
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent

from noetl_temporal.mirror.attempt_record import valid_error, valid_records
from noetl_temporal.mirror.attempts import write_attempts
from noetl_temporal.mirror.call import ActivityTimes, Call
from noetl_temporal.mirror.event_row import RowWriter
from noetl_temporal.mirror.payloads import Json, Reference, as_list, as_mapping, as_text, first_value
from noetl_temporal.mirror.raw import milliseconds

__all__ = ["activity_event_ids", "records_in", "write_call", "write_report"]

_ENDS = {
    EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED,
    EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED,
    EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT,
    EventType.EVENT_TYPE_ACTIVITY_TASK_CANCELED,
}

_INTERRUPTED = {"ActivityPause": "paused", "ActivityReset": "reset"}
"""The status of an interrupted attempt, by the type of its failure."""

_MAX_LOST = 20_000
"""The maximum number of attempts of one call that get rows although they have no record: a report may claim any number.
"""


def activity_event_ids(event: HistoryEvent) -> tuple[int, int] | None:
    """Return the event ids (schedule, start) of the activity that ends with this event; None for any other event."""
    kind = event.WhichOneof("attributes")
    if event.event_type not in _ENDS or kind is None:
        return None
    attributes = getattr(event, kind)
    return attributes.scheduled_event_id, attributes.started_event_id


def write_call(writer: RowWriter, schedule_event: HistoryEvent, start_event: HistoryEvent | None) -> None:
    """Write the rows of the call whose activity ends with the writer's event."""
    call = as_mapping(first_value(schedule_event.activity_task_scheduled_event_attributes.input.payloads))
    if call is not None and "event_id" in call:
        times = _activity_times(schedule_event, start_event, writer.event)
        records, outcome = _records_and_outcome(writer.event, times)
        write_attempts(writer, Call(call, writer.state), times, _with_lost_attempts(records, times), outcome)


def write_report(writer: RowWriter, call: dict[str, Json], times: ActivityTimes, report: Json) -> None:
    """Write the rows of a call that had no activity of its own."""
    records, outcome = _read_report(report, times)
    write_attempts(writer, Call(call, writer.state), times, _with_lost_attempts(records, times), outcome)


def _activity_times(
    schedule_event: HistoryEvent, start_event: HistoryEvent | None, end_event: HistoryEvent
) -> ActivityTimes:
    if start_event is None:
        return ActivityTimes(milliseconds(schedule_event.event_time), None, milliseconds(end_event.event_time), 1, "")
    attributes = start_event.activity_task_started_event_attributes
    return ActivityTimes(
        milliseconds(schedule_event.event_time),
        milliseconds(start_event.event_time),
        milliseconds(end_event.event_time),
        attributes.attempt,
        attributes.identity,
    )


def _records_and_outcome(event: HistoryEvent, times: ActivityTimes) -> tuple[list[dict[str, Json]], Json]:
    """Return (records of the attempts, outcome of the last one). Without a report, the last record is made from what
    the server knows.
    """
    match event.event_type:
        case EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
            return _read_report(first_value(event.activity_task_completed_event_attributes.result.payloads), times)
        case EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED:
            return _records_of_failure(event.activity_task_failed_event_attributes.failure, times), None
        case EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT:
            return _records_of_timeout(event.activity_task_timed_out_event_attributes.failure, times), None
        case _:
            details = first_value(event.activity_task_canceled_event_attributes.details.payloads)
            return _with_last_attempt(records_in(details), times, "cancelled"), None


def _read_report(result: Json, times: ActivityTimes) -> tuple[list[dict[str, Json]], Json]:
    """Return (records, outcome) of a report. If it has no records or is a Reference, the record is made from what the
    server knows.
    """
    report = as_mapping(result)
    if report is None:
        return [_record_of_server(times, "ok")], result
    outcome = as_mapping(report.get("outcome")) or {}
    if (stored_result := as_mapping(report.get("stored"))) is not None:
        claim = {"size": stored_result.get("bytes"), "preview": as_text(report.get("preview"))}
        outcome = {**outcome, "result": Reference("payload", {**claim, **_keys_of(stored_result)})}
    status = "ok" if outcome.get("status") == "ok" else "error"
    record = _record_of_server(times, status, valid_error(outcome.get("error")))
    return valid_records(report.get("attempts")) or [record], outcome


def _keys_of(stored_result: dict[str, Json]) -> dict[str, Json]:
    """Return the ``key`` of the result in noetl.payload. For a result with a large list, return the ``keys`` of the
    list's pages and its JSON pointer, ``pointer``, which is omitted if the result itself is the list.
    """
    keys = [(as_mapping(part) or {}).get("key") for part in as_list(stored_result.get("parts")) or ()]
    if stored_result.get("is_one"):
        return {"key": keys[0] if keys else None}
    return {"keys": keys, **({"pointer": stored_result["pointer"]} if stored_result.get("pointer") else {})}


def _records_of_failure(failure: Failure, times: ActivityTimes) -> list[dict[str, Json]]:
    info = failure.application_failure_info
    error = {"kind": info.type or "internal", "message": failure.message, "traceback": failure.stack_trace or None}
    return _with_last_attempt(
        records_in(first_value(info.details.payloads)), times, _INTERRUPTED.get(info.type, "error"), error
    )


def _records_of_timeout(failure: Failure, times: ActivityTimes) -> list[dict[str, Json]]:
    """Return the records of the last heartbeat. The attempt whose record is not complete is lost."""
    records = records_in(first_value(failure.timeout_failure_info.last_heartbeat_details.payloads))
    return _with_last_attempt(records, times, "lost", {"message": failure.message})


def records_in(details: Json) -> list[dict[str, Json]]:
    """Return the attempt records in the details of a heartbeat (attempt_details.Details); none in any other details."""
    info = as_mapping(details) or {}
    records = [as_mapping(record) for record in (info.get("first"), *(as_list(info.get("records")) or ()))]
    return valid_records([record for record in records if record is not None and "started" in record])


def _with_last_attempt(
    records: list[dict[str, Json]], times: ActivityTimes, status: str, error: Json = None
) -> list[dict[str, Json]]:
    """Add what the server knows of the last attempt, unless no worker started it or it has reported its own end."""
    if times.started is None:
        return records
    if records and records[-1]["number"] >= times.attempt:
        return (
            records
            if records[-1].get("ended")
            else [*records[:-1], {**records[-1], **_end_columns(times, status, error)}]
        )
    return [*records, _record_of_server(times, status, error)]


def _with_lost_attempts(records: list[dict[str, Json]], times: ActivityTimes) -> list[dict[str, Json]]:
    """Return one record for every attempt: an attempt without one is lost. If more than _MAX_LOST have none, return
    only the given records.
    """
    records_by_number = {record["number"]: record for record in records}
    last = max(records_by_number, default=0)
    if last - len(records_by_number) > _MAX_LOST:
        return [records_by_number[number] for number in sorted(records_by_number)]
    attempts: list[dict[str, Json]] = []
    start = times.scheduled
    for number in range(1, last + 1):
        record = records_by_number.get(number) or {"number": number, "started": start, "status": "lost"}
        attempts.append(record)
        start = record.get("ended") or record["started"]
    return attempts


def _record_of_server(times: ActivityTimes, status: str, error: Json = None) -> dict[str, Json]:
    """Return the record of the last attempt, from what the server knows."""
    start = times.closed if times.started is None else times.started
    return {"number": times.attempt, "started": start, **_end_columns(times, status, error)}


def _end_columns(times: ActivityTimes, status: str, error: Json) -> dict[str, Json]:
    return {"ended": times.closed, "status": status, "error": error}
