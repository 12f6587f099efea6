"""The artifact tool against a server compatible with S3."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from noetl_activities import artifact
from noetl_activities.errors import ConfigError
from noetl_activities.outcome import Json, Outcome
from tests.activities.conftest import Context, request
from tests.activities.test_described_results import check
from tests.object_store import BUCKET, KEYS, PUBLIC, ObjectStore

ORDERS = {"rows": [{"id": 1, "city": "Zürich"}], "total": 1}

pytestmark = pytest.mark.usefixtures("loopback")


async def call(object_store: ObjectStore, action: str, key: str, **config: Json) -> Outcome:
    context = Context(backup={"type": "s3", **KEYS, "endpoint": object_store.url})
    request_ = request("artifact", "backup", action=action, uri=f"s3://{BUCKET}/{key}", **config)
    return await artifact.TOOL.run(request_, context)


@pytest.mark.parametrize("key", ["orders/1.json", "orders/1.json.gz", "a b/ü+%?.json"])
@pytest.mark.parametrize("value", [ORDERS, [1, 2.5, None], 17, "text", "", "{no json"])
async def test_get_returns_the_value_of_put(object_store: ObjectStore, key: str, value: Json) -> None:
    put = await call(object_store, "put", key, data=value)
    get_outcome = await call(object_store, "get", key)
    assert (put.status, get_outcome.status) == ("ok", "ok"), (put, get_outcome)
    assert get_outcome.result == {**put.result, "data": value if value != "" else None}
    check("artifact", get_outcome.result)


async def test_a_compressed_key_is_gzip_in_the_store_and_the_same_each_time(object_store: ObjectStore) -> None:
    put = await call(object_store, "put", "many.json.gz", data=[ORDERS] * 1000)
    stored_bytes = object_store.stored_object("many.json.gz")
    assert json.loads(gzip.decompress(stored_bytes)) == [ORDERS] * 1000
    assert put.result["size_bytes"] == len(gzip.decompress(stored_bytes)) > 10 * len(stored_bytes)
    await call(object_store, "put", "many.json.gz", data=[ORDERS] * 1000)
    assert object_store.stored_object("many.json.gz") == stored_bytes


async def test_bytes_are_base64(object_store: ObjectStore) -> None:
    object_store.store("image.png", b"\xff\x00")
    assert (await call(object_store, "get", "image.png")).result["data"] == {"base64": "/wA="}


async def test_a_public_object_needs_no_credential(object_store: ObjectStore) -> None:
    object_store.store("rates.json", b'{"eur": 1}', PUBLIC)
    request_ = request("artifact", action="get", uri=f"s3://{PUBLIC}/rates.json", endpoint=object_store.url)
    assert (await artifact.TOOL.run(request_, Context())).result["data"] == {"eur": 1}


async def test_a_missing_object_is_not_found(object_store: ObjectStore) -> None:
    outcome = await call(object_store, "get", "none.json")
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.code) == ("not_found", "HTTP_404")
    assert outcome.error.message == f"get s3://{BUCKET}/none.json: the store returned 404 NOT FOUND (NoSuchKey)"


async def test_a_wrong_key_is_an_error_without_it(object_store: ObjectStore) -> None:
    context = Context(backup={"type": "s3", **KEYS, "secret_access_key": "wr0ng-secret", "endpoint": object_store.url})
    request_ = request("artifact", "backup", action="put", uri=f"s3://{BUCKET}/a.json", data=1)
    outcome = await artifact.TOOL.run(request_, context)
    assert outcome.error is not None
    assert outcome.error.kind == "auth"
    assert outcome.error.message.endswith("403 Forbidden (SignatureDoesNotMatch)")


async def test_an_object_that_unpacks_to_too_much_is_refused(object_store: ObjectStore) -> None:
    object_store.store("bomb.gz", gzip.compress(b" " * (64 * 1024 * 1024)))
    with pytest.raises(ConfigError, match="is over 16 MB when decompressed"):
        await call(object_store, "get", "bomb.gz")
    object_store.store("broken.gz", b"\x1f\x8bnothing")
    with pytest.raises(ConfigError, match="is not valid gzip"):
        await call(object_store, "get", "broken.gz")
    object_store.store("large.txt", b"x" * (17 * 1024 * 1024))
    with pytest.raises(ConfigError, match="is over 16 MB"):
        await call(object_store, "get", "large.txt")


async def test_an_object_whose_compressed_data_is_cut_off_is_refused(object_store: ObjectStore) -> None:
    object_store.store("cut.gz", gzip.compress(json.dumps([ORDERS] * 1000).encode())[:-20])
    with pytest.raises(ConfigError, match=r"is not valid gzip: .*ended before"):
        await call(object_store, "get", "cut.gz")


async def test_an_object_of_several_compressed_parts_is_read_whole(object_store: ObjectStore) -> None:
    object_store.store("parts.txt.gz", gzip.compress(b"first ") + gzip.compress(b"second"))
    assert (await call(object_store, "get", "parts.txt.gz")).result["data"] == "first second"


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"action": "delete", "uri": "s3://b-1/k"}, "action is 'delete': write get or put"),
        ({"action": "put", "uri": "s3://b-1/k"}, "needs data"),
        ({"action": "put", "uri": "s3://b-1/k", "data": "x" * (16 * 1024 * 1024 + 1)}, "data is over 16 MB"),
        ({"action": "get"}, '"" is not the address of an object'),
        ({"action": "get", "uri": "file:///etc/passwd"}, '"file:///etc/passwd" is not the address of an object'),
        ({"action": "get", "uri": "s3://b-1/k", "endpoint": "http://e"}, "cannot change the server of a credential"),
    ],
)
async def test_a_call_that_cannot_be_made_is_refused(config: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        await artifact.TOOL.run(request("artifact", "backup", **config), Context(backup={"type": "s3", **KEYS}))


async def test_an_unavailable_store_is_a_connection_error() -> None:
    request_ = request("artifact", action="get", uri="s3://b-1/k", endpoint="http://127.0.0.1:9")
    outcome = await artifact.TOOL.run(request_, Context())
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.message) == (
        "connection",
        "get s3://b-1/k: connection refused: nothing listens there",
    )
