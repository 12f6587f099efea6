"""Reads the values in history events.

Values are payloads: ``json/plain`` or packed trails, unless a codec or external storage is configured.
``with_plain_values`` converts all others to ``json/plain`` with the client's data converter, so that the fold does no
I/O. Encrypted values have been decrypted before (decryption.py). noetl.history stores the event unchanged. A reference
to storage that is not configured stays a Reference (``payload_value``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC
from typing import Any, TypeAlias, cast

import msgspec
from temporalio.api.common.v1 import Payload, Payloads
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.sdk.v1 import ExternalStorageReference
from temporalio.converter import DataConverter

from noetl_temporal.ids import scheduled_execution_id
from noetl_temporal.messages.packed_trail import PackedTrail, from_payload, is_packed, unpack
from noetl_temporal.mirror.storable import storable
from noetl_temporal.naming import TRAIL

__all__ = [
    "REFERENCE",
    "Json",
    "Reference",
    "as_list",
    "as_mapping",
    "as_text",
    "first_value",
    "input_of",
    "payload_value",
    "trail_in_marker",
    "trail_of",
    "with_plain_values",
]

Json: TypeAlias = Any


_ARGUMENTS = 2
"""The number of a workflow's arguments that the fold reads: not a loop's items and scope, which follow."""

STORE = "noetl.store"
"""The local activity that stores values, and returns their keys (stored_values.py)."""

_PLAIN = b"json/plain"
REFERENCE = ExternalStorageReference.DESCRIPTOR.full_name.encode()
"""The messageType in the metadata of a payload that refers to external storage."""


class Reference(msgspec.Struct, frozen=True):
    """A value in storage that was not fetched."""

    driver: str
    claim: dict[str, Json]


def payload_value(payload: Payload) -> Json:
    """Return the JSON of a payload, without characters that Postgres cannot store; a packed trail as the mapping of its
    fields; a value in external storage as a Reference; None for anything else, and for JSON that is nested too deeply.
    """
    if payload.metadata.get("messageType") == REFERENCE:
        content = msgspec.json.decode(payload.data)
        return Reference(content.get("driverName", ""), content.get("claimData", {}))
    if is_packed(payload):
        return msgspec.to_builtins(from_payload(payload))
    if payload.metadata.get("encoding") != _PLAIN:
        return None
    try:
        return msgspec.json.decode(storable(payload.data))
    except (msgspec.DecodeError, RecursionError):
        return None


def first_value(payloads: Sequence[Payload]) -> Json:
    """Return the value of the first payload, None without any."""
    return payload_value(payloads[0]) if payloads else None


def input_of(event: HistoryEvent) -> dict[str, Json] | None:
    """Return the arguments of the run that begins with this event, merged into one mapping; None if one is a Reference.

    They are a run_input.RunInput and a Playbook, or a loop_run.LoopRun and a LoopBody. The input of a schedule has no
    execution id: each of its runs has its own."""
    attributes = event.workflow_execution_started_event_attributes
    parts = [as_mapping(payload_value(payload)) for payload in attributes.input.payloads[:_ARGUMENTS]]
    fields: dict[str, Json] = {}
    for part in parts:
        if part is None:
            return None
        fields |= part
    if "graph" in fields and not fields.get("execution_id"):
        start_time = event.event_time.ToDatetime(UTC)
        fields["execution_id"] = scheduled_execution_id(start_time, attributes.first_execution_run_id)
    return fields or None


def trail_of(value: Json) -> list[Json]:
    """Return the events of a packed trail, without characters that Postgres cannot store; none for a Reference."""
    mapping = as_mapping(value)
    return [] if mapping is None else unpack(msgspec.convert(mapping, PackedTrail), storable)


def as_mapping(value: Json) -> dict[str, Json] | None:
    """Return the value if it is a mapping, else None."""
    return cast("dict[str, Json]", value) if isinstance(value, dict) else None


def as_list(value: Json) -> list[Json] | None:
    """Return the value if it is a list, else None."""
    return cast("list[Json]", value) if isinstance(value, list) else None


def as_text(value: Json) -> str | None:
    """Return a string and None unchanged, any other value as JSON."""
    return value if value is None or isinstance(value, str) else msgspec.json.encode(value).decode()


def trail_in_marker(details: Mapping[str, Payloads]) -> Sequence[Payload]:
    """Return the trail in a marker of the local activity that records it; empty for other markers."""
    return _result_of(details, TRAIL)


def _result_of(details: Mapping[str, Payloads], *activities: str) -> Sequence[Payload]:
    """Return the result in the details of a marker of one of these local activities; empty for other markers."""
    mapping = as_mapping(first_value(details["data"].payloads)) if "data" in details else None
    is_of_activity = mapping is not None and mapping.get("activity_type") in activities
    return details["result"].payloads if is_of_activity and "result" in details else ()


async def with_plain_values(event: HistoryEvent, converter: DataConverter) -> HistoryEvent:
    """Return the event with all its values as plain JSON. Raises what the converter's storage or codec raises."""
    if converter.external_storage is None and converter.payload_codec is None:
        return event
    if not any(_needs_converter(payload, converter) for payload in _payloads_to_read(event)):
        return event
    copy = HistoryEvent()
    copy.CopyFrom(event)
    for payload in _payloads_to_read(copy):
        if _needs_converter(payload, converter):
            [plain_value] = await converter.decode([payload])
            payload.CopyFrom(Payload(metadata={"encoding": _PLAIN}, data=msgspec.json.encode(plain_value)))
    return copy


def _needs_converter(payload: Payload, converter: DataConverter) -> bool:
    """Whether the converter must read the payload: it refers to the converter's storage, or is encoded by its codec."""
    if payload.metadata.get("messageType") == REFERENCE:
        return converter.external_storage is not None
    is_readable = is_packed(payload) or payload.metadata.get("encoding") in (_PLAIN, b"binary/null")
    return converter.payload_codec is not None and not is_readable


def _payloads_to_read(event: HistoryEvent) -> Iterator[Payload]:
    """Yield the payloads that the fold reads, not copied."""
    kind = event.WhichOneof("attributes")
    if kind is None:
        return
    attributes = getattr(event, kind)
    present = {field.name for field, _ in attributes.ListFields()}
    if kind.startswith("start_child"):
        present.discard("input")  # may be large, and the child's own history has it
    for name in present & {"input", "result", "details"}:
        field_value = getattr(attributes, name)
        yield from (
            field_value.payloads[:_ARGUMENTS]
            if isinstance(field_value, Payloads)
            else _result_of(field_value, TRAIL, STORE)
        )
    for name in present & {"header", "upserted_memo"}:
        yield from _trail_payload(getattr(attributes, name).fields)
    if "failure" in present:
        yield from attributes.failure.application_failure_info.details.payloads
        yield from attributes.failure.timeout_failure_info.last_heartbeat_details.payloads


def _trail_payload(fields: Mapping[str, Payload]) -> Iterator[Payload]:
    if TRAIL in fields:
        yield fields[TRAIL]
