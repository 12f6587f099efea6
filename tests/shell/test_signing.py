"""What a signature covers, and which files are taken for a key."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from temporalio.client import Client
from temporalio.converter import (
    ActivitySerializationContext,
    DataConverter,
    StorageDriverStoreContext,
    StorageDriverWorkflowInfo,
    WorkflowSerializationContext,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import TLSConfig

from noetl_temporal.access import open_access_warning
from noetl_temporal.deployment import DeploymentError
from noetl_temporal.machine.call import StoredRef, ToolCall, ToolReport
from noetl_temporal.machine.facts import PayloadRef
from noetl_temporal.messages.attempt_details import Details
from noetl_temporal.payloads.codec import data_converter, replay_converter, worker_converter
from noetl_temporal.payloads.signed_converter import RefusedValue
from noetl_temporal.payloads.signing import SIGNATURE, read_key
from noetl_temporal.payloads.stored_values import reference

KEY = b"k" * 32
REPORT = ToolReport({"status": "ok"})


def converter_for(converter: DataConverter | None = None, **fields: Any) -> DataConverter:
    """A worker's converter in an activity."""
    context: dict[str, Any] = {
        "namespace": "default", "workflow_id": "w", "workflow_type": "t", "activity_type": "a", "activity_id": "1",
        "activity_task_queue": "q", "is_local": False,
    }  # fmt: skip
    converter_ = worker_converter(converter or data_converter(None, KEY))
    return converter_.with_context(ActivitySerializationContext(**(context | fields)))


def is_refused(converter: DataConverter, payloads: list[Any], *hints: Any) -> bool:
    try:
        values = converter.payload_converter.from_payloads(payloads, list(hints) or None)
    except ApplicationError as error:
        return error.non_retryable
    return isinstance(values[0], RefusedValue)


def test_a_signature_is_valid_only_in_its_place() -> None:
    [payload] = converter_for().payload_converter.to_payloads([REPORT])
    assert converter_for().payload_converter.from_payloads([payload], [ToolReport]) == [REPORT]
    others: list[dict[str, Any]] = [
        {"namespace": "n"}, {"workflow_id": "v"}, {"activity_id": "2"}, {"is_local": True}
    ]  # fmt: skip
    for fields in others:
        assert is_refused(converter_for(**fields), [payload], ToolReport)
    in_workflow = worker_converter(data_converter(None, KEY)).with_context(WorkflowSerializationContext("default", "w"))
    assert is_refused(in_workflow, [payload], ToolReport)


def test_signatures_depend_on_kind_key_and_every_byte() -> None:
    [payload] = converter_for().payload_converter.to_payloads([REPORT])
    assert is_refused(converter_for(), [payload], ToolCall)
    assert is_refused(converter_for(data_converter(None, b"K" * 32)), [payload], ToolReport)
    changed_payload = type(payload)()
    changed_payload.CopyFrom(payload)
    changed_payload.data = changed_payload.data.replace(b"ok", b"no")
    assert is_refused(converter_for(), [changed_payload], ToolReport)
    del payload.metadata[SIGNATURE]
    assert is_refused(converter_for(), [payload], ToolReport)
    assert not is_refused(converter_for(data_converter()), [payload], ToolReport)


def test_all_arguments_are_covered_by_the_first() -> None:
    converter = converter_for().payload_converter
    payloads = converter.to_payloads([REPORT, ["an item"]])
    assert converter.from_payloads(payloads, [ToolReport, list[str]]) == [REPORT, ["an item"]]
    others = converter.to_payloads([REPORT, ["another"]])
    assert is_refused(converter_for(), [payloads[0], others[1]], ToolReport, list[str])
    assert is_refused(converter_for(), [payloads[0]], ToolReport)
    assert is_refused(
        converter_for(), [payloads[0], others[1]]
    )  # as the SDK asks where the number of arguments is wrong


def test_a_value_named_by_its_key_is_covered_as_if_it_were_there() -> None:
    stored_data = msgspec.json.encode(["an item"])
    [plain] = data_converter().payload_converter.to_payloads([["an item"]])
    assert plain.data == stored_data
    key = _key_of(plain)
    payloads = converter_for().payload_converter.to_payloads([REPORT, reference(key)])
    assert not is_refused(converter_for(), [payloads[0], plain], ToolReport, list[str])
    [other] = data_converter().payload_converter.to_payloads([["another"]])
    assert is_refused(converter_for(), [payloads[0], other], ToolReport, list[str])
    disguised_payload = type(other)(metadata={**payloads[1].metadata, "encoding": b"json/plain"}, data=payloads[1].data)
    assert is_refused(converter_for(), [payloads[0], disguised_payload], ToolReport, dict[str, Any])


def _key_of(payload: Any) -> str:
    return hashlib.sha256(payload.SerializeToString(deterministic=True)).hexdigest()


def test_a_worker_accepts_only_signed_heartbeats() -> None:
    """The SDK reads their details without a type hint."""
    details = Details(())
    [signed_payload] = converter_for().payload_converter.to_payloads([details])
    assert not is_refused(converter_for(), [signed_payload])
    [report] = converter_for().payload_converter.to_payloads([REPORT])
    [plain] = data_converter().payload_converter.to_payloads([details])
    for case in (plain, report):
        assert is_refused(converter_for(), [case])


@pytest.mark.parametrize("value", [REPORT, StoredRef((), 1), [PayloadRef("k", 1)], msgspec.Raw(b"1")])
def test_every_value_that_comes_back_to_a_workflow_is_signed(value: Any) -> None:
    [payload] = converter_for(is_local=True).payload_converter.to_payloads([value])
    assert SIGNATURE in payload.metadata


def test_texts_may_come_from_anyone() -> None:
    """Such as the reason of a cancel."""
    [payload] = data_converter().payload_converter.to_payloads(["enough"])
    assert converter_for().payload_converter.from_payloads([payload], [str]) == ["enough"]


def test_a_replay_checks_nothing() -> None:
    converter = replay_converter(data_converter(None, KEY))
    [payload] = data_converter().payload_converter.to_payloads([REPORT])
    assert converter.payload_converter.from_payloads([payload], [ToolReport]) == [REPORT]


# ---- the key -------------------------------------------------------------------------------------------------------


def key_file(folder: Path, text: str = "5" * 64, mode: int = 0o600) -> Path:
    path = folder / "key"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_key_is_read_from_its_file(tmp_path: Path) -> None:
    assert read_key(key_file(tmp_path, "5" * 64 + "\n")) == b"5" * 64


def test_a_key_file_that_others_can_read_or_is_short_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DeploymentError, match="can be read by others"):
        read_key(key_file(tmp_path, mode=0o644))
    with pytest.raises(DeploymentError, match="fewer than 32 bytes"):
        read_key(key_file(tmp_path, "secret\n"))
    with pytest.raises(DeploymentError, match="cannot read NOETL_SIGNING_KEY_FILE"):
        read_key(tmp_path / "missing")


# ---- who can command a worker --------------------------------------------------------------------------------------

CERTIFICATE = TLSConfig(client_cert=b"c", client_private_key=b"k")


@pytest.mark.parametrize(
    ("address", "settings", "key", "is_open"),
    [
        ("temporal.example:7233", {}, None, True),
        ("10.0.0.1:7233", {"tls": True}, None, True),
        ("127.example:7233", {}, None, True),
        ("temporal.example:7233", {"tls": CERTIFICATE}, None, False),
        ("temporal.example:7233", {"api_key": "k"}, None, False),
        ("temporal.example:7233", {}, KEY, False),
        ("127.0.0.1:7233", {}, None, False),
        ("localhost:7233", {}, None, False),
        ("[::1]:7233", {}, None, False),
    ],
)
async def test_a_worker_warns_if_anyone_can_command_it(
    address: str, settings: dict[str, Any], key: bytes | None, is_open: bool
) -> None:
    client = await Client.connect(address, data_converter=data_converter(None, key), lazy=True, **settings)
    problem = open_access_warning(client)
    assert (problem is not None) is is_open
    if problem is not None:
        assert address in problem
        assert "NOETL_SIGNING_KEY_FILE" in problem


def test_the_sdk_copies_no_converter_for_what_a_payload_belongs_to() -> None:
    converter = worker_converter(data_converter("postgresql://nobody@127.0.0.1:1/none", KEY))
    place = WorkflowSerializationContext("default", "w")
    store = StorageDriverStoreContext(target=StorageDriverWorkflowInfo(namespace="default", id="w"))
    converter_in_context = converter._with_contexts(place, store)  # pyright: ignore[reportPrivateUsage] - as the SDK does
    assert converter_in_context is converter.with_context(place)
