"""Keys, and what is encrypted with them, without servers."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
from typing import Any
from urllib.parse import urlsplit

import pytest
from google.protobuf.json_format import MessageToDict
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.converter import ActivitySerializationContext, DataConverter
from temporalio.exceptions import ApplicationError

from noetl_temporal.deployment import DeploymentError
from noetl_temporal.inspection.codec_server import Access, serving_codec
from noetl_temporal.machine.call import ToolCall, ToolReport
from noetl_temporal.messages.packed_trail import pack
from noetl_temporal.payloads.codec import data_converter, replay_converter, worker_converter
from noetl_temporal.payloads.encryption import ENCRYPTED, ENCRYPTION_KEYS_VARIABLE, DecryptionError, Keyring
from noetl_temporal.payloads.encryption_codec import UndecryptableValue
from noetl_temporal.payloads.encryption_keys import (
    ENCRYPTION_VAULT_VARIABLE,
    VAULT_FIELD,
    keyring_from_environment,
    parse_keys,
)
from tests.shell.servers import on_loopback

CANARY = "canary-5f0e"
SIGNING_KEY = b"s" * 32
OLD, NEW, OTHER = b"o" * 32, b"n" * 32, b"x" * 32


def encrypting(*keys: tuple[str, bytes], signing_key: bytes | None = SIGNING_KEY) -> DataConverter:
    return data_converter(None, signing_key, Keyring(dict(keys)))


async def encrypt(converter: DataConverter, value: Any) -> Payload:
    [payload] = await converter.encode([value])
    return payload


async def test_a_value_is_encrypted_with_all_its_metadata_and_read_again() -> None:
    converter = encrypting(("k1", NEW))
    report = ToolReport({"status": "ok", "result": CANARY})
    payload = await encrypt(converter, report)
    assert CANARY.encode() not in payload.SerializeToString()
    assert set(payload.metadata) == {"encoding", "encryption-cipher", "encryption-key-id"}
    assert await converter.decode([payload], [ToolReport]) == [report]


async def test_equal_values_are_encrypted_differently() -> None:
    converter = encrypting(("k1", NEW))
    assert await encrypt(converter, CANARY) != await encrypt(converter, CANARY)


async def test_the_first_key_encrypts_and_the_others_decrypt() -> None:
    before, during, after = encrypting(("old", OLD)), encrypting(("new", NEW), ("old", OLD)), encrypting(("new", NEW))
    old, new = await encrypt(before, CANARY), await encrypt(during, CANARY)
    assert await during.decode([old, new]) == [CANARY, CANARY]
    assert await after.decode([new]) == [CANARY]
    with pytest.raises(DecryptionError, match=f"key 'old' is missing here: add it to {ENCRYPTION_KEYS_VARIABLE}"):
        await after.decode([old])


@pytest.mark.parametrize("is_keyed", [True, False])
async def test_a_process_without_the_key_names_it(is_keyed: bool) -> None:
    payload = await encrypt(encrypting(("k1", NEW)), CANARY)
    without = encrypting(("k2", NEW)) if is_keyed else data_converter()
    with pytest.raises(DecryptionError, match="the encryption key 'k1' is missing here"):
        await without.decode([payload], [str])


async def test_another_key_with_the_same_id_and_a_changed_value_are_distinguished_from_a_missing_key() -> None:
    payload = await encrypt(encrypting(("k1", NEW)), CANARY)
    with pytest.raises(DecryptionError, match="cannot be decrypted with the key 'k1'"):
        await encrypting(("k1", OTHER)).decode([payload])
    payload.data = payload.data[:-1] + bytes([payload.data[-1] ^ 1])
    with pytest.raises(DecryptionError, match="cannot be decrypted with the key 'k1': it was changed"):
        await encrypting(("k1", NEW)).decode([payload])


async def test_a_row_of_the_store_can_be_read_only_as_the_value_of_its_own_key() -> None:
    keyring = Keyring({"k1": NEW})
    ciphertext = keyring.encrypt(Payload(data=b"x"), b"one")
    assert keyring.decrypt(ciphertext, b"one").data == b"x"
    with pytest.raises(DecryptionError):
        keyring.decrypt(ciphertext, b"another")


@pytest.mark.parametrize("signing_key", [None, SIGNING_KEY], ids=["unsigned", "signed"])
async def test_texts_details_and_causes_of_failures_are_encrypted(signing_key: bytes | None) -> None:
    converter = encrypting(("k1", NEW), signing_key=signing_key)
    failure = Failure()
    try:
        try:
            raise ValueError(CANARY)
        except ValueError as cause:
            raise ApplicationError(CANARY, {"value": CANARY}, type="Kind") from cause
    except ApplicationError as error:
        await converter.encode_failure(error, failure)
    text = failure.SerializeToString()
    assert CANARY.encode() not in text
    assert failure.application_failure_info.type == "Kind"
    for reader in (converter, replay_converter(converter)):
        decoded_failure = Failure.FromString(text)
        read = await reader.decode_failure(decoded_failure)
        assert isinstance(read, ApplicationError)
        assert (read.message, read.details) == (CANARY, ({"value": CANARY},))
        assert str(read.__cause__) == f"ValueError: {CANARY}"
    with pytest.raises(DecryptionError):
        await encrypting(("k2", NEW), signing_key=signing_key).decode_failure(Failure.FromString(text))


async def test_a_failure_for_want_of_a_key_is_readable_without_it() -> None:
    failure = Failure()
    await encrypting(("k1", NEW)).encode_failure(DecryptionError("the encryption key 'k2' is missing"), failure)
    assert failure.message == "the encryption key 'k2' is missing"


@pytest.mark.parametrize("is_keyed", [True, False])
async def test_a_worker_without_the_key_learns_of_a_call_and_may_send_its_heartbeats_again(is_keyed: bool) -> None:
    """The SDK would end an activity for good whose heartbeats cannot be decoded."""
    encrypted_payload = await encrypt(encrypting(("k1", NEW)), CANARY)
    activity = ActivitySerializationContext(
        namespace="default",
        workflow_id="w",
        workflow_type="noetl.playbook",
        activity_type="noetl.noop",
        activity_id="a",
        activity_task_queue="q",
        is_local=False,
    )
    keys = (("k2", NEW),) if is_keyed else ()
    without = worker_converter(encrypting(*keys) if keys else data_converter(None, SIGNING_KEY)).with_context(activity)
    [call] = await without.decode([encrypted_payload], [ToolCall])
    [details] = await without.decode([encrypted_payload])
    assert isinstance(call, UndecryptableValue)
    assert "'k1' is missing" in call.message
    assert await without.encode([details]) == [encrypted_payload]
    with pytest.raises(DecryptionError):
        await without.decode([encrypted_payload], [ToolReport])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("abc", "key 1 in here is not id:base64"),
        (f"a:{base64.b64encode(NEW).decode()},:x", "key 2 in here is not id:base64"),
        ("a:hush-hush", "the key 'a' in here is not base64 of 32 bytes"),
        (f"a:{base64.b64encode(b'short').decode()}", "the key 'a' in here is not base64 of 32 bytes"),
        (f"a:{base64.b64encode(NEW).decode()}," * 2, "two keys with the id 'a'"),
    ],
)
def test_wrong_keys_are_named_by_their_place_and_never_quoted(text: str, problem: str) -> None:
    with pytest.raises(DeploymentError, match=problem) as failure:
        parse_keys(text, "here")
    assert "hush" not in str(failure.value)


async def test_keys_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENCRYPTION_KEYS_VARIABLE, raising=False)
    assert await keyring_from_environment() is None
    encoded_key = base64.b64encode(NEW).decode()
    monkeypatch.setenv(ENCRYPTION_KEYS_VARIABLE, f"new:{encoded_key}, old:{encoded_key}")
    keyring = await keyring_from_environment()
    assert keyring is not None
    assert keyring.ids == ("new", "old")
    assert encoded_key not in repr(vars(keyring))
    monkeypatch.setenv(ENCRYPTION_VAULT_VARIABLE, "secret/keys")
    with pytest.raises(DeploymentError, match="not both"):
        await keyring_from_environment()


async def test_keys_come_from_vault(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded_key = base64.b64encode(NEW).decode()
    secrets: dict[str, dict[str, str]] = {
        "noetl/keys": {VAULT_FIELD: f"new:{encoded_key}"},
        "noetl/other": {"x": "hush"},
    }

    async def secret(request: Request) -> JSONResponse:
        is_known = request.headers.get("X-Vault-Token") == "root"
        fields = secrets.get(request.path_params["path"])
        if not is_known or fields is None:
            return JSONResponse({"errors": []}, 403 if fields else 404)
        return JSONResponse({"data": {"data": fields}})

    monkeypatch.delenv(ENCRYPTION_KEYS_VARIABLE, raising=False)
    monkeypatch.setenv("NOETL_VAULT_TOKEN", "root")
    async with on_loopback(Route("/v1/secret/data/{path:path}", secret)) as url:
        monkeypatch.setenv("NOETL_VAULT_ADDRESS", url)
        monkeypatch.setenv(ENCRYPTION_VAULT_VARIABLE, "secret/noetl/keys")
        keyring = await keyring_from_environment()
        assert keyring is not None
        assert keyring.ids == ("new",)
        monkeypatch.setenv(ENCRYPTION_VAULT_VARIABLE, "secret/noetl/other")
        with pytest.raises(DeploymentError, match="has no field 'keys'"):
            await keyring_from_environment()
        monkeypatch.setenv(ENCRYPTION_VAULT_VARIABLE, "secret/noetl/none")
        with pytest.raises(DeploymentError, match=r"cannot read NOETL_ENCRYPTION_VAULT \(secret/noetl/none\)"):
            await keyring_from_environment()


# ---- the codec server ----------------------------------------------------------------------------------------------

ORIGIN = "http://localhost:8233"


def post(url: str, path: str, payloads: list[Payload], **headers: str) -> tuple[int, Any, dict[str, str]]:
    """What a browser gets."""
    body = json.dumps({"payloads": [MessageToDict(payload_) for payload_ in payloads]})
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    sent_headers = {"Content-Type": "application/json", "X-Namespace": "default", "Origin": ORIGIN, **headers}
    connection.request("POST", path, body, sent_headers)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read() or b"null"), dict(answer.getheaders())


def data_in(answer: Any) -> list[Any]:
    return [json.loads(base64.b64decode(entry["data"])) for entry in answer["payloads"]]


async def post_in_thread(
    url: str, path: str, payloads: list[Payload], **headers: str
) -> tuple[int, Any, dict[str, str]]:
    return await asyncio.to_thread(post, url, path, payloads, **headers)


async def test_the_codec_server_decrypts_and_encrypts_as_the_web_ui_asks() -> None:
    converter = encrypting(("k1", NEW))
    secret = await encrypt(converter, {"said": CANARY})
    trail = await encrypt(converter, pack([]))
    foreign = await encrypt(encrypting(("k9", NEW)), CANARY)
    async with serving_codec(converter, Access(ORIGIN)) as url:
        status, answer, headers = await post_in_thread(url, "/decode", [secret, foreign])
        assert status == 200
        assert headers["Access-Control-Allow-Origin"] == ORIGIN
        assert data_in({"payloads": answer["payloads"][:1]}) == [{"said": CANARY}]
        assert base64.b64decode(answer["payloads"][1]["metadata"]["encoding"]) == ENCRYPTED
        _, answer, _ = await post_in_thread(url, "/decode", [trail])
        assert data_in(answer) == [[]]
        plain = Payload(metadata={"encoding": b"json/plain"}, data=b'"hello"')
        large = Payload(metadata={"encoding": b"json/plain"}, data=b'"' + b"x" * 100_000 + b'"')
        _, answer, _ = await post_in_thread(url, "/encode", [plain, large])
        assert base64.b64decode(answer["payloads"][1]["metadata"]["encoding"]) == ENCRYPTED
        assert base64.b64decode(answer["payloads"][0]["metadata"]["encoding"]) == ENCRYPTED


async def test_the_codec_server_answers_pages_of_one_origin_with_its_token() -> None:
    converter = encrypting(("k1", NEW))
    secret = await encrypt(converter, CANARY)
    async with serving_codec(converter, Access(ORIGIN, "token-1")) as url:
        assert (await post_in_thread(url, "/decode", [secret]))[0] == 401
        assert (await post_in_thread(url, "/decode", [secret], Authorization="Bearer token-2"))[0] == 401
        right = {"Authorization": "Bearer token-1"}
        assert (await post_in_thread(url, "/decode", [secret], **right))[0] == 200
        status, answer, headers = await post_in_thread(url, "/decode", [secret], **right, Origin="http://evil.example")
        assert (status, headers["Access-Control-Allow-Origin"]) == (403, ORIGIN)
        assert CANARY not in str(answer)
        assert (await post_in_thread(url, "/other", [secret], **right))[0] == 404
