"""Signed requests for objects: where they go, and what they are signed with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from noetl_activities.errors import ConfigError, CredentialError
from noetl_activities.object_store import ObjectRequest, StoredObject, object_request
from tests.object_store import KEYS

PRIVATE = rsa.generate_private_key(65537, 2048)
ACCOUNT = {
    "type": "service_account",
    "client_email": "noetl@example.iam.gserviceaccount.com",
    "private_key_id": "1",
    "private_key": PRIVATE.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
}


def request_to(address: str, credential: Mapping[str, Any], **location: str) -> ObjectRequest:
    return object_request("GET", StoredObject.parse(address), credential, **location)


@pytest.mark.parametrize(
    ("address", "credential", "location", "begins"),
    [
        ("s3://b-1/k", {}, {}, "https://s3.us-east-1.amazonaws.com/b-1/k"),
        ("s3://b-1/k", {}, {"region": "eu-west-2"}, "https://s3.eu-west-2.amazonaws.com/b-1/k"),
        ("s3://b-1/k", {**KEYS, "region": "eu-west-2"}, {"region": "x"}, "https://s3.eu-west-2.amazonaws.com/b-1/k?"),
        ("gs://b-1/k", {}, {}, "https://storage.googleapis.com/b-1/k"),
        ("gs://b-1/k", KEYS, {}, "https://storage.googleapis.com/b-1/k?"),
        ("s3://b-1/k", {**KEYS, "endpoint": "https://minio.example.com/"}, {}, "https://minio.example.com/b-1/k?"),
    ],
)
def test_the_credential_says_where_the_store_is(
    address: str, credential: Mapping[str, Any], location: dict[str, str], begins: str
) -> None:
    assert request_to(address, credential, **location).url.startswith(begins)


def test_the_environment_of_the_process_signs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of-the-environment")
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-the-environment")
    url = request_to("s3://b-1/k", KEYS).url
    assert url.startswith("https://s3.us-east-1.amazonaws.com/b-1/k?")
    assert f"X-Amz-Credential={KEYS['access_key_id']}" in url
    assert "of-the-environment" not in url
    assert "X-Amz-Security-Token=mine" in request_to("s3://b-1/k", {**KEYS, "session_token": "mine"}).url


@pytest.mark.parametrize("credential", [ACCOUNT, {"type": "gcs", "service_account_json": json.dumps(ACCOUNT)}])
def test_a_service_account_signs_for_google(credential: Mapping[str, Any]) -> None:
    parts = urlsplit(request_to("gs://b-1/a b.py", credential).url)
    query, _, signature = parts.query.partition("&X-Goog-Signature=")
    canonical = "\n".join(("GET", parts.path, query, f"host:{parts.netloc}", "", "host", "UNSIGNED-PAYLOAD"))
    fields = dict(parse_qsl(query))
    account, _, scope = fields["X-Goog-Credential"].partition("/")
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = "\n".join(("GOOG4-RSA-SHA256", fields["X-Goog-Date"], scope, digest))
    PRIVATE.public_key().verify(bytes.fromhex(signature), text.encode(), padding.PKCS1v15(), SHA256())
    assert (parts.netloc, parts.path, account) == ("storage.googleapis.com", "/b-1/a%20b.py", ACCOUNT["client_email"])


@pytest.mark.parametrize(
    ("address", "credential", "why"),
    [
        ("s3://b-1/k", ACCOUNT, "signs only for gs://"),
        (
            "gs://b-1/k",
            {**ACCOUNT, "endpoint": "http://127.0.0.1:1"},
            "without an endpoint",
        ),
        ("gs://b-1/k", {**ACCOUNT, "private_key": "n0t-a-key"}, "the key of the service account cannot be used"),
    ],
)
def test_a_service_account_that_cannot_sign_is_refused(address: str, credential: Mapping[str, Any], why: str) -> None:
    with pytest.raises(CredentialError, match=why) as failure:
        request_to(address, credential)
    assert "n0t-a-key" not in str(failure.value)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_name: str) -> None:
        """No module is installed."""

    monkeypatch.setattr("noetl_activities.object_store.find_spec", missing)
    with pytest.raises(ConfigError, match=r"noetl-temporal\[objectstore\]"):
        request_to("s3://b-1/k", KEYS)
    assert request_to("s3://b-1/k", {}).url.endswith("/b-1/k")
