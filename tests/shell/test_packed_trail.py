"""Domain events in few bytes."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from temporalio.converter import PayloadConverter

from noetl_temporal.event_ids import IdClock
from noetl_temporal.machine.domain import DomainEvent
from noetl_temporal.messages.packed_trail import DICTIONARIES, PackedTrail, pack, unpack
from noetl_temporal.payloads.codec import data_converter

AT = 1_795_368_558_040
NAMES = st.sampled_from(["fetch", "a step", "ünïcode", ""])
IDS = st.integers(0, 2**63 - 1)
EVENTS = st.lists(
    st.builds(
        DomainEvent,
        id=IDS,
        at=st.integers(0, 2**42),
        type=NAMES,
        node=NAMES,
        kind=NAMES,
        status=NAMES,
        parent=st.none() | IDS,
        ends=st.none() | IDS,
        duration=st.none() | st.floats(0, 1e6),
        result=st.none() | st.dictionaries(NAMES, st.integers(0, 9)),
        meta=st.dictionaries(NAMES, NAMES)
        | st.fixed_dictionaries({"left_out": st.fixed_dictionaries({"size": st.integers(65, 99), "row": IDS})}),
    ),
    max_size=8,
)


@given(EVENTS)
def test_packed_trails_are_unpacked_unchanged(events: list[DomainEvent]) -> None:
    assert unpack(pack(events)) == msgspec.to_builtins(events)


def test_many_events_come_back() -> None:
    """More than the small window holds."""
    events = [step(number)[-1] for number in range(1000)]
    assert unpack(pack(events)) == msgspec.to_builtins(events)


def step(number: int) -> list[DomainEvent]:
    """What the machine writes between two calls in a row."""
    clock = IdClock()
    ids = [clock.next(AT + number, slot=0) for _ in range(5)]
    before = IdClock(AT + number - 35, used=4).next(AT + number - 35, slot=0)
    name, run = f"load_{number}", {"step_run_id": f"load_{number}#1"}
    end_event: dict[str, Any] = {"parent": before, "ends": before, "duration": 0.035, "result": {"rows": number}}
    place = {"source": {"file": "nightly/load.yaml", "line": 12 + number, "col": 5}}
    return [
        DomainEvent(
            ids[0], AT, "task.done", "insert", "postgres", "COMPLETED", **end_event, meta={"step": name, **run}
        ),
        DomainEvent(ids[1], AT, "step.done", name, "step", "COMPLETED", **end_event, meta=run),
        DomainEvent(ids[2], AT, "next.evaluated", name, "step", "COMPLETED", before, meta={"chosen": ["next"], **run}),
        DomainEvent(ids[3], AT, "step.started", "next", "step", "STARTED", before, meta={**place, **run}),
        DomainEvent(ids[4], AT, "task.started", "insert", "postgres", "STARTED", ids[3], meta={**place, "step": name}),
    ]


def test_events_take_a_fifth_of_their_json() -> None:
    events = step(7)
    assert len(pack(events).data) * 5 < len(msgspec.json.encode(events))


def test_a_dictionary_is_never_changed() -> None:
    """Or what was written with it cannot be read. One that is better gets a name of its own."""
    known_digests = {"1": "68b5b32a94cacba7"}
    assert {name: hashlib.sha256(text).hexdigest()[:16] for name, text in DICTIONARIES.items()} == known_digests


def test_an_unknown_dictionary_is_refused() -> None:
    with pytest.raises(KeyError, match="'9'"):
        unpack(PackedTrail("9", b""))


def test_a_payload_names_its_dictionary() -> None:
    packed_trail = pack(step(1))
    converter: PayloadConverter = data_converter().payload_converter
    [payload] = converter.to_payloads([packed_trail])
    assert payload.metadata == {"encoding": b"noetl/trail1"}
    assert converter.from_payloads([payload]) == [packed_trail]
