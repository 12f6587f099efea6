"""What a history event names in the payload store, and what its execution owns therefore."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from google.protobuf.message import Message
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.sdk.v1 import ExternalStorageReference
from temporalio.converter import JSONProtoPayloadConverter

from noetl_temporal.machine.call import Part, StoredRef, ToolReport
from noetl_temporal.machine.facts import ChunkReport, PayloadRef
from noetl_temporal.mirror.owners import ReadEvent, payload_keys, references
from noetl_temporal.workflows.loop_run import LoopEnd


def _reference(key: str) -> Payload:
    reference = ExternalStorageReference(driver_name="noetl.payload", claim_data={"key": key})
    payload = JSONProtoPayloadConverter().to_payload(reference)
    assert payload is not None
    return payload


def _references(*keys: str) -> Payloads:
    return Payloads(payloads=[_reference(key) for key in keys])


def _started() -> Message:
    event = HistoryEvent()
    started = event.workflow_execution_started_event_attributes
    started.input.CopyFrom(_references("a", "b"))
    started.memo.fields["m"].CopyFrom(_reference("c"))
    started.header.fields["noetl-trail"].CopyFrom(_reference("d"))
    return event


def _marker() -> Message:
    event = HistoryEvent()
    event.marker_recorded_event_attributes.details["result"].CopyFrom(_references("e"))
    return event


def _failed() -> Message:
    inner = Failure(encoded_attributes=_reference("f"))
    inner.application_failure_info.details.CopyFrom(_references("g"))
    outer = Failure(cause=inner)
    outer.timeout_failure_info.last_heartbeat_details.CopyFrom(_references("h"))
    event = HistoryEvent()
    event.activity_task_timed_out_event_attributes.failure.CopyFrom(outer)
    event.user_metadata.details.CopyFrom(_reference("i"))
    return event


def _plain() -> Message:
    event = HistoryEvent()
    text = Payload(metadata={"encoding": b"json/plain"}, data=b'"temporal.api.sdk.v1.ExternalStorageReference"')
    event.activity_task_completed_event_attributes.result.payloads.append(text)
    return event


@pytest.mark.parametrize(
    ("event", "expected"), [(_started(), "abcd"), (_marker(), "e"), (_failed(), "fghi"), (_plain(), "")]
)
def test_references_are_found_wherever_a_payload_stands(event: Message, expected: str) -> None:
    assert references(event) == set(expected)


def test_an_event_names_its_references_and_its_segments() -> None:
    event = HistoryEvent()
    event.activity_task_completed_event_attributes.result.CopyFrom(_references("a"))
    assert payload_keys(ReadEvent(event, HistoryEvent(), ["b", "c"])) == {"a", "b", "c"}


@pytest.mark.parametrize(
    "value",
    [
        ToolReport({"status": "ok"}, stored=StoredRef((Part("a" * 64),), 70_000, is_one=True)),
        [PayloadRef("a" * 64, 70_000)],
        LoopEnd(ChunkReport("ok", stored=StoredRef((Part("a" * 64, 0, 3),), 70_000))),
    ],
)
def test_an_event_names_the_facts_of_a_machine(value: Any) -> None:
    event = HistoryEvent()
    event.activity_task_completed_event_attributes.result.payloads.append(
        Payload(metadata={"encoding": b"json/plain"}, data=msgspec.json.encode(value))
    )
    assert payload_keys(ReadEvent(event, HistoryEvent(), [])) == {"a" * 64}
