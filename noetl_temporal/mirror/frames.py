"""The rows of a frame: items of a loop that ran in one activity (noetl_temporal/frames).

The activity's result has the key of the frame's last segment in the payload store. ``with_entries`` replaces the key by
the entries of all segments, so that the fold does no I/O; ``write_frame`` writes the rows that the history of a loop's
workflow would have. If a frame ends without a result, because it was cancelled while no worker ran it, its items are
missing in the log.

A frame has an id slot and a clock like the workflow of a loop, so its rows are written with a state of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from temporalio.api.common.v1 import Payload
from temporalio.api.history.v1 import HistoryEvent
from temporalio.converter import DataConverter, StorageDriver, StorageDriverClaim, StorageDriverRetrieveContext

from noetl_temporal.messages.segment_chain import SegmentChain
from noetl_temporal.mirror.call import ActivityTimes
from noetl_temporal.mirror.event_row import RowWriter
from noetl_temporal.mirror.payloads import Json, as_list, as_mapping, first_value
from noetl_temporal.mirror.reports import write_report
from noetl_temporal.mirror.run_state import RunState, clock_above

__all__ = ["is_frame", "with_entries", "write_frame"]

FRAME = "noetl.frame"
"""The activity's type (frames/wire.py)."""


class _Segment(msgspec.Struct):
    """The fields of a segment that the mirror reads (frames/segments.py)."""

    previous_key: str | None
    entries: list[msgspec.Raw]


# ---- before the fold -------------------------------------------------------------------------------------------------


async def with_entries(event: HistoryEvent, converter: DataConverter) -> tuple[HistoryEvent, list[str]]:
    """Return the event with ``{"entries": [...]}`` in place of a reference to segments, and the keys of the segments.

    Raises InflateError, the payload store's errors."""
    if converter.external_storage is None:
        return event, []
    key = (as_mapping(first_value(_result(event))) or {}).get("last_segment")
    if not isinstance(key, str):
        return event, []
    entries, keys = await _entries(converter, converter.external_storage.drivers[0], key)
    copy = HistoryEvent()
    copy.CopyFrom(event)
    text = msgspec.json.encode({"entries": entries})
    _result(copy)[0].CopyFrom(Payload(metadata={"encoding": b"json/plain"}, data=text))
    return copy, keys


def _result(event: HistoryEvent) -> Sequence[Payload]:
    """Return the result in the completion event of an activity."""
    return event.activity_task_completed_event_attributes.result.payloads


async def _entries(
    converter: DataConverter, store: StorageDriver, key: str | None
) -> tuple[list[msgspec.Raw], list[str]]:
    """Return the entries of all segments, in order, and the keys of the segments."""
    parts: list[list[msgspec.Raw]] = []
    chain = SegmentChain()
    while key is not None:
        chain.follow(key)
        payloads = await store.retrieve(StorageDriverRetrieveContext(), [StorageDriverClaim({"key": key})])
        if converter.payload_codec is not None:
            payloads = await converter.payload_codec.decode(payloads)
        segment = msgspec.json.decode(chain.decompress(payloads[0].data), type=_Segment)
        parts.append(segment.entries)
        key = segment.previous_key
    return [entry for part in reversed(parts) for entry in part], chain.keys


# ---- the fold --------------------------------------------------------------------------------------------------------


def is_frame(schedule_event: HistoryEvent) -> bool:
    """Whether the activity scheduled by this event is a frame."""
    return schedule_event.activity_task_scheduled_event_attributes.activity_type.name == FRAME


def write_frame(writer: RowWriter, schedule_event: HistoryEvent) -> None:
    """Write the rows of the frame that ends with the writer's event."""
    frame_input = as_mapping(first_value(schedule_event.activity_task_scheduled_event_attributes.input.payloads))
    if frame_input is None:
        return
    frame_writer = RowWriter(_frame_state(writer.state, frame_input["input"]), writer.event, writer.rows)
    for entry in as_list((as_mapping(first_value(_result(writer.event))) or {}).get("entries")) or ():
        _write_entry(frame_writer, entry)


def _frame_state(state: RunState, loop: dict[str, Json]) -> RunState:
    """Return the state for the rows of a frame, from the state of the run that started it."""
    return RunState(
        namespace=state.namespace,
        workflow_id=state.workflow_id,
        run_id=state.run_id,
        execution_id=state.execution_id,
        path=state.path,
        node=loop["step"]["name"],
        clock=clock_above(loop["after"]),
        slot=loop["slot"],
        loop_id=loop["loop_id"],
        loop_step_run_id=loop.get("step_run_id", ""),
        retry_configs=state.retry_configs,
        root_event_id=loop["event_id"],
    )


def _write_entry(writer: RowWriter, entry: dict[str, Json]) -> None:
    if "event" in entry:
        writer.add_domain_event(entry["event"])
    else:
        report = entry["report"]
        attempts = len(as_list((as_mapping(report) or {}).get("attempts")) or ())
        times = ActivityTimes(
            entry["scheduled"], entry["scheduled"], entry["closed"], max(1, attempts), entry["worker"]
        )
        write_report(writer, entry["call"], times, report)
