"""The nats tool against a real server with JetStream."""

# The client of NATS has types in part.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import itertools
import socket
from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import nats
import pytest
from nats.js import JetStreamContext
from nats.js.api import KeyValueConfig, ObjectStoreConfig, StreamConfig

from noetl_activities.errors import ConfigError, CredentialError
from noetl_activities.nats import operations as nats_operations
from noetl_activities.nats.tool import TOOL
from noetl_activities.outcome import Outcome
from tests.nats_server import LOGIN

from .conftest import Context, request

NUMBERS = itertools.count(1)


class Server:
    """A bucket, an object store and a stream of one test."""

    def __init__(self, address: str, stream: JetStreamContext) -> None:
        number = next(NUMBERS)
        self.stream, self.address = stream, address
        self.bucket, self.name, self.subject = f"bucket_{number}", f"stream_{number}", f"orders_{number}.new"
        self.context = Context(cache={"type": "nats", "nats_url": address, **LOGIN})

    async def make(self) -> None:
        await self.stream.create_key_value(KeyValueConfig(self.bucket, limit_marker_ttl=10))
        await self.stream.create_object_store(self.bucket, ObjectStoreConfig(self.bucket))
        await self.stream.add_stream(StreamConfig(self.name, subjects=[self.subject]))

    async def run(self, operation: str, auth: Any = "cache", **config: Any) -> Outcome:
        request_ = request("nats", auth, operation=operation, **config)
        return await TOOL.run(msgspec.structs.replace(request_, key="42/publish"), self.context)

    async def call(self, operation: str, **config: Any) -> Any:
        outcome = await self.run(operation, bucket=self.bucket, **config)
        assert outcome.error is None
        assert outcome.result["operation"] == operation
        return outcome.result


@pytest.fixture
async def server(nats_address: str) -> AsyncGenerator[Server]:
    client = await nats.connect(nats_address, user=LOGIN["nats_user"], password=LOGIN["nats_password"])
    server_ = Server(nats_address, client.jetstream())
    await server_.make()
    yield server_
    await client.close()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"user": 1, "roles": ["a"]}, {"user": 1, "roles": ["a"]}),
        ("text é", "text é"),
        ("", None),
        (7, "7"),
        ([1, None], [1, None]),
    ],
)
async def test_a_stored_value_is_read_back(server: Server, value: Any, expected: Any) -> None:
    put = await server.call("kv_put", key="tooling/1.a", value=value)
    assert await server.call("kv_get", key="tooling/1.a") == {**put, "operation": "kv_get", "value": expected}


async def test_bytes_are_sent_as_base64(server: Server) -> None:
    await server.call("kv_put", key="k", value="AP8=", encoding="base64")
    assert (await server.call("kv_get", key="k"))["value"] == {"base64": "AP8="}


async def test_keys_are_listed_and_deleted(server: Server) -> None:
    assert await server.call("kv_keys") == {"operation": "kv_keys", "keys": []}
    for key in ("b", "a"):
        await server.call("kv_put", key=key, value="x")
    assert (await server.call("kv_keys"))["keys"] == ["a", "b"]
    assert await server.call("kv_delete", key="a") == {"operation": "kv_delete", "key": "a", "deleted": True}
    assert (await server.call("kv_keys"))["keys"] == ["b"]


async def test_a_value_may_have_a_time_to_live(server: Server) -> None:
    await server.call("kv_put", key="k", value="x", ttl="1")
    assert (await server.call("kv_get", key="k"))["value"] == "x"
    stream = await server.stream.get_last_msg(f"KV_{server.bucket}", f"$KV.{server.bucket}.k")
    assert (stream.headers or {})["Nats-TTL"] == "1"


@pytest.mark.parametrize("key", ["missing", "deleted"])
async def test_a_key_that_is_not_there_is_not_found(server: Server, key: str) -> None:
    await server.call("kv_put", key="deleted", value="x")
    await server.call("kv_delete", key="deleted")
    outcome = await server.run("kv_get", bucket=server.bucket, key=key)
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.retryable) == ("not_found", False)


async def test_objects_are_stored_and_read(server: Server) -> None:
    assert (await server.call("object_list"))["objects"] == []
    put = await server.call("object_put", key="report", value="x" * 300_000)
    assert (put["key"], put["size"]) == ("report", 300_000)
    assert (await server.call("object_get", key="report"))["value"] == "x" * 300_000
    assert (await server.call("object_list"))["objects"] == [{"key": "report", "size": 300_000}]
    await server.call("object_delete", key="report")
    assert (await server.call("object_list"))["objects"] == []


async def test_a_large_object_is_not_fetched(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nats_operations, "MAX_OBJECT_BYTES", 1 << 20)
    await server.call("object_put", key="large", value="x" * (1 << 21))
    with pytest.raises(ConfigError, match="has 2,097,152 bytes, over 1 MB"):
        await server.call("object_get", key="large")


async def test_a_message_of_a_call_is_taken_once(server: Server) -> None:
    publications = [await server.call("js_publish", subject=server.subject, payload={"id": 1}) for _ in range(2)]
    assert [(answer["sequence"], answer["duplicate"]) for answer in publications] == [(1, False), (1, True)]
    message = await server.call("js_get_msg", stream=server.name, subject=server.subject)
    assert (message["payload"], message["sequence"]) == ({"id": 1}, 1)
    assert (await server.call("js_stream_info", stream=server.name))["messages"] == 1


@pytest.mark.parametrize(
    ("operation", "config"),
    [
        ("kv_get", {"bucket": "nowhere", "key": "k"}),
        ("object_get", {"bucket": "nowhere", "key": "k"}),
        ("js_stream_info", {"stream": "nowhere"}),
        ("js_publish", {"subject": "nobody.listens", "payload": "x"}),
    ],
)
async def test_a_missing_key_or_object_is_not_found(server: Server, operation: str, config: dict[str, Any]) -> None:
    outcome = await server.run(operation, **config)
    assert outcome.error is not None
    assert outcome.error.kind == "not_found"


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"operation": "kv_drop"}, "operation is 'kv_drop': write one of kv_get"),
        ({"operation": "kv_get", "bucket": "b"}, "kv_get needs a key"),
        ({"operation": "kv_get", "key": "k"}, "kv_get needs a bucket"),
        ({"operation": "kv_put", "bucket": "BUCKET", "key": "k"}, "kv_put needs a value"),
        ({"operation": "kv_put", "bucket": "BUCKET", "key": "a b", "value": 1}, "kv_put: "),
        ({"operation": "kv_put", "bucket": "BUCKET", "key": "a.*", "value": 1, "ttl": 1}, "is not a key of a bucket"),
        ({"operation": "kv_put", "bucket": "BUCKET", "key": "k", "value": 1, "ttl": 0}, "ttl is 0"),
        ({"operation": "kv_put", "bucket": "b a d", "key": "k", "value": 1}, "kv_put: "),
        ({"operation": "kv_put", "bucket": "BUCKET", "key": "k", "value": "?", "encoding": "base64"}, "is not base64"),
        ({"operation": "js_publish", "subject": "a\r\nPUB b 1", "payload": "x"}, "js_publish: "),
    ],
)
async def test_invalid_calls_are_refused(server: Server, config: dict[str, Any], why: str) -> None:
    config_ = {name: server.bucket if value == "BUCKET" else value for name, value in config.items()}
    with pytest.raises(ConfigError, match=why):
        await server.run(**config_)


async def test_a_wrong_password_is_refused_and_not_reported(server: Server) -> None:
    server.context = Context(cache={"type": "nats", "url": server.address, "user": "noetl", "password": "wrong-secret"})
    outcome = await server.run("kv_keys", bucket=server.bucket)
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.retryable) == ("auth", False)
    assert "wrong-secret" not in outcome.error.message


async def test_a_server_that_is_unavailable_is_a_connection_error(server: Server) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        address = f"nats://127.0.0.1:{held.getsockname()[1]}"
        server.context = Context(cache={"type": "nats", "url": address})
        outcome = await server.run("kv_keys", bucket=server.bucket)
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.retryable) == ("connection", True)


@pytest.mark.parametrize("auth", [None, {"type": "nats", "url": "nats://10.0.0.1"}])
async def test_a_playbook_names_no_server(server: Server, auth: Any) -> None:
    with pytest.raises(CredentialError, match="the name of a credential of type nats"):
        await server.run("kv_keys", auth, bucket=server.bucket)


async def test_a_credential_needs_an_address(server: Server) -> None:
    server.context = Context(cache={"type": "nats", "token": "t0ken-t0ken"})
    with pytest.raises(CredentialError, match="needs a url"):
        await server.run("kv_keys", bucket=server.bucket)
