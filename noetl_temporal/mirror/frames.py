"""The rows of a frame: items of a loop that ran in one activity (noetl_temporal/frames).

History has the activity's end, which names the last of the frame's segments in the payload store; a frame that ended
without a result is named by its last heartbeat. ``with_entries`` puts what the segments tell in place of that name, so
that the fold need not wait; ``write_frame`` writes the rows, those that a workflow's history would have given.

A frame has an id slot and a clock like the workflow of a loop, so its rows are written with a state of their own.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import msgspec
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.converter import DataConverter

from noetl_temporal.mirror.call import Seen
from noetl_temporal.mirror.ends import close
from noetl_temporal.mirror.event_row import RowWriter
from noetl_temporal.mirror.payloads import Json, as_list, as_map, first
from noetl_temporal.mirror.reports import write_report
from noetl_temporal.mirror.run_state import RunState, above
from noetl_temporal.value_store import ValueStore

__all__ = ["is_frame", "with_entries", "write_frame"]

FRAME = "noetl.frame"
"""The activity's type (frames/wire.py)."""


class _Segment(msgspec.Struct):
    """What is read of one (frames/segments.py)."""

    older: str | None
    entries: list[msgspec.Raw]


# ---- before the fold -------------------------------------------------------------------------------------------------


async def with_entries(event: HistoryEvent, converter: DataConverter) -> HistoryEvent:
    """The event with ``{"entries": [...]}`` where it names segments. Raises what the payload store raises."""
    if converter.external_storage is None:
        return event
    found = [as_map(first(payloads)) or {} for payloads in _told_in(event)]
    keys = [told.get("segments") or told.get("head") for told in found if "records" not in told]
    if not any(isinstance(key, str) for key in keys):
        return event
    copy = HistoryEvent()
    copy.CopyFrom(event)
    for payloads, key in zip(_told_in(copy), keys, strict=True):
        entries = await _entries(ValueStore(converter), key)
        payloads[0].CopyFrom(
            Payload(metadata={"encoding": b"json/plain"}, data=msgspec.json.encode({"entries": entries}))
        )
    return copy


def _told_in(event: HistoryEvent) -> list[Sequence[Payload]]:
    """Where the end of an activity has what it returned, or its last heartbeat."""
    found: Sequence[Payload]
    match event.event_type:
        case EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
            found = event.activity_task_completed_event_attributes.result.payloads
        case EventType.EVENT_TYPE_ACTIVITY_TASK_CANCELED:
            found = event.activity_task_canceled_event_attributes.details.payloads
        case EventType.EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT:
            failure = event.activity_task_timed_out_event_attributes.failure
            found = failure.timeout_failure_info.last_heartbeat_details.payloads
        case _:
            found = ()
    return [found] if found else []


async def _entries(values: ValueStore, key: Json) -> list[msgspec.Raw]:
    """Those of all segments, in their order."""
    parts: list[list[msgspec.Raw]] = []
    while isinstance(key, str):
        segment = msgspec.json.decode(zlib.decompress(await values.get(key)), type=_Segment)
        parts.append(segment.entries)
        key = segment.older
    return [entry for part in reversed(parts) for entry in part]


# ---- the fold --------------------------------------------------------------------------------------------------------


def is_frame(scheduled: HistoryEvent) -> bool:
    """Whether the activity scheduled by this event is a frame."""
    return scheduled.activity_task_scheduled_event_attributes.activity_type.name == FRAME


def write_frame(writer: RowWriter, scheduled: HistoryEvent) -> None:
    """Write the rows of the frame that ends with the writer's event."""
    given = as_map(first(scheduled.activity_task_scheduled_event_attributes.input.payloads))
    if given is None:
        return
    inner = RowWriter(_state(writer.state, given["input"]), writer.event, writer.rows)
    for payloads in _told_in(writer.event):
        for entry in as_list((as_map(first(payloads)) or {}).get("entries")) or ():
            _write(inner, entry)
    is_completed = writer.event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED
    close(inner, "completed" if is_completed else "cancelled", None)


def _state(around: RunState, loop: dict[str, Json]) -> RunState:
    return RunState(
        namespace=around.namespace,
        workflow_id=around.workflow_id,
        run_id=around.run_id,
        execution_id=around.execution_id,
        path=around.path,
        node=loop["step"]["name"],
        clock=above(loop["after"]),
        slot=loop["slot"],
        loop_id=loop["loop_id"],
        started=loop["event_id"],
    )


def _write(inner: RowWriter, entry: dict[str, Json]) -> None:
    if "event" in entry:
        inner.domain(entry["event"])
    else:
        report = entry["report"]
        attempts = len(report.get("attempts") or ())
        seen = Seen(entry["scheduled"], entry["scheduled"], entry["closed"], max(1, attempts), "")
        write_report(inner, entry["call"], seen, report)
