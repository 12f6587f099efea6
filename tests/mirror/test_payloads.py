"""Values that are not plain JSON, and secrets that are masked."""

from __future__ import annotations

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.sdk.v1 import ExternalStorageReference
from temporalio.converter import DataConverter, JSONProtoPayloadConverter

from noetl_temporal.mirror.payloads import Reference, payload_value, with_plain_values
from noetl_temporal.mirror.rows import UnreadableRunError, fold, initial_state
from noetl_temporal.mirror.sanitise import LARGE, sanitise
from noetl_temporal.shortening import abridge
from tests.mirror.recorded import read


def _reference() -> Payload:
    reference = ExternalStorageReference(driver_name="shelf", claim_data={"key": "k1"})
    payload = JSONProtoPayloadConverter().to_payload(reference)
    assert payload is not None
    return payload


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (Payload(metadata={"encoding": b"json/plain"}, data=b'{"a": 1}'), {"a": 1}),
        (Payload(metadata={"encoding": b"json/plain"}, data=b"{"), None),
        (Payload(metadata={"encoding": b"binary/null"}), None),
        (Payload(metadata={"encoding": b"binary/encrypted"}, data=b"\x00"), None),
        (_reference(), Reference("shelf", {"key": "k1"})),
    ],
)
def test_how_values_are_sanitised(payload: Payload, expected: object) -> None:
    assert payload_value(payload) == expected


async def test_a_result_in_a_storage_that_is_not_configured_is_logged_as_a_reference() -> None:
    [recorded_run] = read("flaky")
    events = recorded_run.events()
    done = next(event for event in events if event.HasField("activity_task_completed_event_attributes"))
    done.activity_task_completed_event_attributes.result.payloads[0].CopyFrom(_reference())
    events = [await with_plain_values(event, DataConverter.default) for event in events]
    rows = fold(initial_state(recorded_run.run, events[0]), events, {event.event_id: event for event in events})
    [logged_row] = [row for row in rows if row.event_type == "task.attempt.done"]
    assert logged_row.result == {"status": "COMPLETED", "reference": {"type": "shelf", "key": "k1"}}


def test_a_run_whose_input_cannot_be_read_names_the_remedy() -> None:
    [recorded_run] = read("flaky")
    started = recorded_run.events()[0]
    started.workflow_execution_started_event_attributes.input.payloads[0].CopyFrom(_reference())
    with pytest.raises(UnreadableRunError, match=r"tests/flaky/.*give the mirror the same data converter"):
        initial_state(recorded_run.run, started)


@pytest.mark.parametrize(
    "name", ["password", "db_password", "api_key", "apiKey", "Authorization", "access_token", "token", "secret", "_x"]
)
def test_secrets_are_left_out(name: str) -> None:
    assert sanitise({"outer": [{name: "hush", "city": "Oslo"}]}) == {"outer": [{"city": "Oslo"}]}


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://a/b?api_key=k1&x=1", "https://a/b?api_key=***&x=1"),
        ("https://a/b?x=1&access_token=t%20t#there", "https://a/b?x=1&access_token=***#there"),
        ("https://a/b?page_token=3&key=4", "https://a/b?page_token=3&key=4"),
        ("a = 1 and token = 2", "a = 1 and token = 2"),
    ],
)
def test_secrets_in_the_query_of_a_url_are_masked(url: str, expected: str) -> None:
    assert sanitise({"config": {"url": [url]}}) == {"config": {"url": [expected]}}


@pytest.mark.parametrize(
    "name", ["page_token", "next_token", "author", "secretary", "tokens_used", "key", "_step_results"]
)
def test_names_that_only_sound_secret_are_not_masked(name: str) -> None:
    assert sanitise({name: "x"}) == {name: "x"}


def test_truncated_values_stay_truncated() -> None:
    values = sanitise({"large": "x" * 20_000, "outer": {"_truncated": {"x": "hush"}, "_size": 1}})
    assert values["large"] == {"_truncated": True, "_size": 20_002}
    assert values["outer"] == {}
    assert sanitise({"workload": values}) == {"workload": values}


def test_a_value_is_abridged_above_its_limit() -> None:
    longest = "x" * (LARGE - 2)
    assert abridge(longest, LARGE) == longest
    assert abridge(longest + "x", LARGE) == {"_truncated": True, "_size": LARGE + 1}
