"""The compact encoding of domain events in history, where the commands of a workflow carry them.

An event has about 240 bytes of JSON, most of them redundant: the names of fields and types, which every playbook
has in common, and the ids and times of the events around it. So

* ids and times are written as differences: ``id`` and ``at`` to those of the previous event, ``parent`` to the event's
  own id, ``ends`` to its parent (mostly the same event), the row that has the event's result to ``ends``;
* the JSON is compressed (raw deflate, RFC 1951) with a preset dictionary of typical events.

The payload's encoding, or the field beside the bytes, names the dictionary. A new dictionary gets a new name, so older
payloads stay readable.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from temporalio.api.common.v1 import Payload

from noetl_temporal.messages.inflate import decompress

__all__ = ["DICTIONARIES", "ENCODINGS", "PackedTrail", "from_payload", "is_packed", "pack", "to_payload", "unpack"]

_LATEST = "1"

DICTIONARIES: Mapping[str, bytes] = {
    "1": (
        b'[{"id":754318462739161088,"at":1795368558040,"type":"playbook.execution.requested","node":"examples/","kind":'
        b'"playbook","status":"PENDING"},{"id":1,"at":0,"type":"playbook.request.evaluated","node":"examples/","kind":'
        b'"playbook","status":"COMPLETED","parent":1},{"id":1,"at":0,"type":"playbook.started","node":"examples/",'
        b'"kind":"playbook","status":"STARTED","parent":2},{"id":1,"at":0,"type":"workflow.started","node":"workflow",'
        b'"kind":"workflow","status":"STARTED","parent":1,"meta":{"entry":"start"}},{"id":1,"at":0,"type":'
        b'"workflow.finished","node":"workflow","kind":"workflow","status":"CANCELLED"},{"type":"playbook.cancelled"'
        b'"playbook.failed","type":"playbook.completed","kind":"playbook"},"type":"step.cancelled","type":"step.failed"'
        b'"type":"task.cancelled","type":"task.failed","kind":"postgres","status":"FAILED","error":"template: '
        b'","type":"policy.task.evaluated","rule":0,"do":"retry","do":"jump","delay":,"page":2,"type":"loop.done",'
        b'"type":"loop.iteration.failed","stats":{"total":10,"success":10,"failed":0,"skipped":0}},{"id":1,"at":0,'
        b'"type":"loop.started","node":"each","kind":"loop","status":"STARTED","parent":1,"meta":{"source":{"file":"'
        b'.yaml","line":15,"col":7},"iterator":{"collection_size":10,"mode":"parallel","max_in_flight":100},'
        b'"loop_id":"each/1","step_run_id":"each#1"}},{"id":754318462739161088,"at":1795368558040,"type":"task.done",'
        b'"node":"each_task","kind":"http","status":"COMPLETED","parent":293601284,"ends":0,"duration":0.062,'
        b'"result":{"status":"ok"},"meta":{"step":"each","loop_id":"each/1","iteration":48,"iteration_id":"each/1/48",'
        b'"task_run_id":"48:each_task:1"}},{"id":1,"at":0,"type":"loop.iteration.done","node":"each","kind":"iteration",'
        b'"status":"COMPLETED","parent":,"ends":0,"duration":0.062,"result":null,"meta":{"step":"each","loop_id":"each/1",'
        b'"iteration":48,"iteration_id":"each/1/48"}},{"id":1,"at":0,"type":"loop.iteration.started","node":"each",'
        b'"kind":"iteration","status":"STARTED","parent":,"meta":{"step":"each","loop_id":"each/1","iteration":49,'
        b'"iteration_id":"each/1/49"}},{"id":1,"at":0,"type":"task.started","node":"each_task","kind":"duckdb","status":'
        b'"STARTED","parent":1,"meta":{"source":{"file":".yaml","line":11,"col":11},"step":"each","loop_id":"each/1",'
        b'"iteration":49,"iteration_id":"each/1/49","task_run_id":"49:each_task:1"}}]'
        b'[{"id":754318462739161088,"at":1795368558040,"type":"task.done","node":"fetch_task","kind":"noop","status":'
        b'"COMPLETED","parent":293601284,"ends":0,"duration":0.035,"result":{"data":1},"meta":{"step":"fetch",'
        b'"step_run_id":"fetch#1","task_run_id":"fetch#1:fetch_task:1"}},{"id":1,"at":0,"type":"step.done","node":"fetch",'
        b'"kind":"step","status":"COMPLETED","parent":,"ends":0,"duration":0.035,"result":,"meta":{"step_run_id":'
        b'"fetch#1"}},{"id":1,"at":0,"type":"next.evaluated","node":"fetch","kind":"step","status":"COMPLETED","parent":,'
        b'"meta":{"mode":"exclusive","arcs":[{"to":"done","matched":true}],"chosen":["done"],"step_run_id":"fetch#1"}},'
        b'{"id":1,"at":0,"type":"step.started","node":"done","kind":"step","status":"STARTED","parent":,"meta":{"source":'
        b'{"file":".yaml","line":152,"col":5},"step_run_id":"done#1"}},{"id":1,"at":0,"type":"task.started","node":'
        b'"done_task","kind":"python","status":"STARTED","parent":1,"meta":{"source":{"file":".yaml","line":153,"col":11},'
        b'"step":"done","step_run_id":"done#1","task_run_id":"done#1:done_task:1"}}]'
    ),
}
"""Compression dictionaries by name. Frequent strings are at the end, where references to them are short. Never change a
dictionary: add another."""

ENCODINGS: Mapping[str, str] = {name: f"noetl/trail{name}" for name in DICTIONARIES}
"""The encodings of packed trails, by the name of their dictionary."""

_NAMES = {encoding.encode(): name for name, encoding in ENCODINGS.items()}

_SHORT_BYTES = 4_000
"""The size of JSON up to which a small compression window, which is faster to set up, compresses as well."""


class PackedTrail(msgspec.Struct, frozen=True):
    """Domain events, in order. In JSON ``data`` is base64."""

    dictionary: str
    data: bytes


def pack(events: Sequence[Any]) -> PackedTrail:
    """Return the events, which are machine.domain.DomainEvent or JSON mappings of the same shape, in compact form."""
    text = msgspec.json.encode(_as_differences(events))
    bits, memory = (13, 5) if len(text) <= _SHORT_BYTES else (15, 8)
    packer = zlib.compressobj(9, zlib.DEFLATED, -bits, memory, zlib.Z_DEFAULT_STRATEGY, DICTIONARIES[_LATEST])
    return PackedTrail(_LATEST, packer.compress(text) + packer.flush())


def unpack(trail: PackedTrail, transform: Callable[[bytes], bytes] = bytes) -> list[dict[str, Any]]:
    """Return the events as JSON mappings. ``transform`` is applied to their JSON before it is parsed.

    Raises KeyError for a dictionary that this version does not know, InflateError.
    """
    text = decompress(trail.data, -15, DICTIONARIES[trail.dictionary])
    fields: list[dict[str, Any]] = msgspec.json.decode(transform(text))
    id_ = at = 0
    for event in fields:
        event["id"] = id_ = id_ + event["id"]
        event["at"] = at = at + event["at"]
        if event.get("parent") is not None:
            event["parent"] = id_ - event["parent"]
        if event.get("ends") is not None:
            event["ends"] = (event.get("parent") or id_) - event["ends"]
        if (left_out := _result_in_other_row(event)) is not None:
            left_out["row"] += event.get("ends") or id_
    return fields


def to_payload(trail: PackedTrail) -> Payload:
    """Return the trail as a payload."""
    return Payload(metadata={"encoding": ENCODINGS[trail.dictionary].encode()}, data=trail.data)


def is_packed(payload: Payload) -> bool:
    """Whether the payload is a packed trail."""
    return payload.metadata.get("encoding", b"") in _NAMES


def from_payload(payload: Payload) -> PackedTrail:
    """Return the trail in a payload of ``to_payload``. Raises KeyError for any other payload."""
    return PackedTrail(_NAMES[payload.metadata["encoding"]], payload.data)


def _as_differences(events: Sequence[Any]) -> list[dict[str, Any]]:
    fields: list[dict[str, Any]] = msgspec.to_builtins(events)
    last_id = last_at = 0
    for event in fields:
        id_, at, parent = event["id"], event["at"], event.get("parent")
        event["id"], event["at"] = id_ - last_id, at - last_at
        if (left_out := _result_in_other_row(event)) is not None:
            left_out["row"] -= event.get("ends") or id_
        if event.get("ends") is not None:
            event["ends"] = (parent or id_) - event["ends"]
        if parent is not None:
            event["parent"] = id_ - parent
        last_id, last_at = id_, at
    return fields


def _result_in_other_row(event: dict[str, Any]) -> dict[str, Any] | None:
    """Return the reference to an omitted result of the event, if another row has the result (machine/stored.py)."""
    left_out: dict[str, Any] = event.get("meta", {}).get("left_out") or {}
    return left_out if "row" in left_out else None
