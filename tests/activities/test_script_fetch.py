"""Scripts fetched by http and from object stores, through the guards of the http tool."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from noetl_activities.credentials import CredentialSource
from noetl_activities.script_fetch import fetch_script
from noetl_compiler.script_requests import Download
from noetl_compiler.scripts import ScriptError
from tests.object_store import BUCKET, KEYS, PUBLIC, TOKEN, ObjectStore

NONE: Mapping[str, Any] = {}


async def fetch(url: str, seconds: float = 10.0, headers: tuple[tuple[str, str], ...] = ()) -> bytes:
    return await asyncio.to_thread(fetch_script, Download(url, headers, seconds), source_of(NONE))


def source_of(credential: Mapping[str, Any]) -> CredentialSource:
    """Has ``credential`` as "store"."""
    return CredentialSource(environment={"NOETL_CREDENTIAL_STORE": json.dumps(dict(credential))})


async def from_store(object_store: ObjectStore, url: str, credential: Mapping[str, Any], endpoint: str = "") -> bytes:
    """Fetch with a credential that names the store's address, or without one from ``endpoint``."""
    credential_ = {**credential, "endpoint": object_store.url} if credential else credential
    download = Download(url, auth="store" if credential else "", endpoint=endpoint)
    return await asyncio.to_thread(fetch_script, download, source_of(credential_))


@pytest.mark.usefixtures("loopback")
async def test_the_body_of_the_response_is_the_script(web: str) -> None:
    assert await fetch(f"{web}/data/text") == b"plain"
    assert b'"x-key":"k"' in await fetch(f"{web}/echo", headers=(("X-Key", "k"),))
    assert await fetch(f"{web}/away?to=/data/text") == b"plain"


@pytest.mark.usefixtures("loopback")
@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/status/404?token=secret", r"/status/404: it returned 404 Not Found"),
        ("/round", "more than 20 redirects"),
        ("/large", "the response is over 16 MB"),
        ("/data/broken", "incorrect header check"),
        ("/away?to=ftp://x/a.py", "cannot fetch"),
    ],
)
async def test_responses_that_are_not_scripts_are_reported(web: str, path: str, why: str) -> None:
    with pytest.raises(ScriptError, match=re.escape(why)) as failure:
        await fetch(f"{web}{path}")
    assert "secret" not in str(failure.value)


@pytest.mark.usefixtures("loopback")
async def test_an_incomplete_response_times_out(web: str) -> None:
    with pytest.raises(ScriptError, match=r"no complete response after 0.3 s"):
        await fetch(f"{web}/slow", seconds=0.3)


async def test_an_address_that_is_not_public_is_refused(web: str) -> None:
    with pytest.raises(ScriptError, match="is not a public address"):
        await fetch(f"{web}/data/text")


@pytest.mark.usefixtures("loopback")
async def test_http_takes_a_credential(web: str) -> None:
    download = Download(f"{web}/echo", auth="store")
    body = await asyncio.to_thread(fetch_script, download, source_of({"type": "bearer", "token": "script-hush"}))
    assert json.loads(body)["headers"]["authorization"] == "Bearer script-hush"


@pytest.mark.usefixtures("loopback")
@pytest.mark.parametrize(
    ("scheme", "credential"),
    [
        ("s3", {"type": "s3", **KEYS}),
        ("s3", {"type": "s3", **KEYS, "region": "eu-central-1"}),
        ("gs", {"type": "gcs_hmac", "key_id": KEYS["access_key_id"], "secret_key": KEYS["secret_access_key"]}),
        ("gs", {"type": "gcs", "token": TOKEN}),
    ],
)
async def test_an_object_is_fetched_with_a_credential(
    object_store: ObjectStore, scheme: str, credential: Mapping[str, Any]
) -> None:
    for key, quoted_key in (("jobs/a.py", "jobs/a.py"), ("a b/ü+%?&=.py", "a%20b/%C3%BC%2B%25%3F%26%3D.py")):
        object_store.store(quoted_key, key.encode())
        assert await from_store(object_store, f"{scheme}://{BUCKET}/{key}", credential) == key.encode()


@pytest.mark.usefixtures("loopback")
async def test_a_public_object_needs_no_credential(object_store: ObjectStore) -> None:
    object_store.store("a.py", b"result = 1", PUBLIC)
    for scheme in ("s3", "gs"):
        assert await from_store(object_store, f"{scheme}://{PUBLIC}/a.py", NONE, object_store.url) == b"result = 1"


@pytest.mark.usefixtures("loopback")
@pytest.mark.parametrize(
    ("url", "credential", "why"),
    [
        (f"s3://{BUCKET}/none.py", {"type": "s3", **KEYS}, "it returned 404 NOT FOUND (NoSuchKey)"),
        ("s3://nowhere/a.py", {"type": "s3", **KEYS}, "it returned 404 NOT FOUND (NoSuchBucket)"),
        (f"s3://{BUCKET}/a.py", {"type": "s3", **KEYS, "secret_access_key": "wr0ng-secret"}, "(SignatureDoesNotMatch)"),
        (f"s3://{BUCKET}/a.py", {"type": "s3", **KEYS, "access_key_id": "other"}, "(InvalidAccessKeyId)"),
        (f"s3://{BUCKET}/a.py", {"type": "s3"}, "a credential for s3:// needs access_key_id and secret_access_key"),
        (f"s3://{BUCKET}/a.py", {"type": "gcs", "token": "t0ken-secret"}, "needs access_key_id and secret_access_key"),
        (f"gs://{BUCKET}/a.py", {"type": "gcs"}, "needs access_key_id and secret_access_key, service_account_json or"),
        (f"gs://{BUCKET}/a.py", {"type": "gcs", "token": "t0ken-secret"}, "it returned 403 Forbidden (AccessDenied)"),
        (f"gs://{BUCKET}/a.py", {"type": "gcs", "service_account_json": "{"}, "is not the JSON of a service account"),
        (f"s3://{BUCKET}/a.py", {"type": "s3", **KEYS, "region": "x/y"}, "the region is 'x/y'"),
        ("s3://no bucket/a.py", {"type": "s3", **KEYS}, "'no bucket' is not the name of a bucket"),
        (f"s3://{BUCKET}", {"type": "s3", **KEYS}, "'' is not the key of an object"),
        (f"s3://{BUCKET}/a/../b.py", {"type": "s3", **KEYS}, "'a/../b.py' is not the key of an object"),
        (f"s3://{BUCKET}/a\n.py", {"type": "s3", **KEYS}, "is not the key of an object"),
    ],
)
async def test_an_object_that_cannot_be_fetched_is_refused(
    object_store: ObjectStore, url: str, credential: Mapping[str, Any], why: str
) -> None:
    with pytest.raises(ScriptError, match=re.escape(why)) as failure:
        await from_store(object_store, url, credential)
    message = f"{failure.value} {failure.value.hint}"
    for secret in (KEYS["access_key_id"], KEYS["secret_access_key"], "wr0ng", "t0ken", "Signature="):
        assert secret not in message


async def test_a_store_that_is_not_public_is_refused(object_store: ObjectStore) -> None:
    with pytest.raises(ScriptError, match="is not a public address") as failure:
        await from_store(object_store, f"s3://{BUCKET}/a.py", {"type": "s3", **KEYS})
    assert "set NOETL_HTTP_ALLOW there" in failure.value.hint


@pytest.mark.usefixtures("loopback")
@pytest.mark.parametrize("endpoint", ["ftp://127.0.0.1", "127.0.0.1:9000", "http://user:hush@127.0.0.1", "http://[::1"])
async def test_an_endpoint_that_is_not_an_address_is_refused(object_store: ObjectStore, endpoint: str) -> None:
    with pytest.raises(ScriptError, match="the endpoint of the store is not an address"):
        await from_store(object_store, f"s3://{PUBLIC}/a.py", NONE, endpoint)


async def test_a_missing_credential_is_reported_as_one_of_the_submitting_process() -> None:
    with pytest.raises(ScriptError, match="no credential 'backup'") as failure:
        await asyncio.to_thread(fetch_script, Download("s3://b-1/a.py", auth="backup"), source_of(NONE))
    assert "with the credentials of that process" in failure.value.hint
