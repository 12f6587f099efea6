"""Requests for objects in S3, Google Cloud Storage, and stores that are compatible with S3.

obstore only signs the address (a presigned URL). The client of the http tool makes the request: its guards refuse
addresses that are not public.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import timedelta
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast
from urllib.parse import quote

import httpx

from noetl_activities.credential_fields import first_field
from noetl_activities.errors import ConfigError, CredentialError
from noetl_activities.tool import Credential

if TYPE_CHECKING:
    from obstore.store import S3Credential

__all__ = ["Method", "ObjectRequest", "StoredObject", "error_code", "object_request"]

Method: TypeAlias = Literal["GET", "PUT"]

DEFAULT_REGION = "us-east-1"
GOOGLE = "https://storage.googleapis.com"

_SIGNATURE_LIFETIME = timedelta(minutes=15)
"""How long a signed address is valid: longer than a call may wait for a connection."""

_KEY_ID_FIELDS = ("access_key_id", "key_id", "aws_access_key_id")
_SECRET_KEY_FIELDS = ("secret_access_key", "secret_key", "secret", "aws_secret_access_key")
_SESSION_FIELDS = ("session_token", "aws_session_token")
_TOKEN_FIELDS = ("token", "access_token")
_ACCOUNT_FIELDS = ("service_account_json", "service_account_key")

_BUCKET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,221}")
_REGION_NAME = re.compile(r"[a-z0-9-]{1,40}")
_MAX_KEY_BYTES = 1024
_ERROR_CODE = re.compile(rb"<Code>([A-Za-z]{1,60})</Code>")


class StoredObject(NamedTuple):
    """``s3://BUCKET/KEY`` or ``gs://BUCKET/KEY``."""

    scheme: str
    bucket: str
    key: str

    @classmethod
    def parse(cls, address: str) -> StoredObject:
        """Parse an address. Raises ConfigError."""
        scheme, separator, path = address.partition("://")
        bucket, _, key = path.partition("/")
        if not separator or scheme not in ("s3", "gs"):
            raise ConfigError(
                f'"{address:.200}" is not the address of an object: write s3://BUCKET/KEY or gs://BUCKET/KEY'
            )
        if _BUCKET_NAME.fullmatch(bucket) is None:
            raise ConfigError(f'"{address:.200}": {bucket!r:.60} is not the name of a bucket')
        if not _is_key(key):
            raise ConfigError(f'"{address:.200}": {key!r:.60} is not the key of an object')
        return cls(scheme, bucket, key)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}/{self.key}"


def _is_key(key: str) -> bool:
    parts = key.split("/")
    return key.isprintable() and len(key.encode()) <= _MAX_KEY_BYTES and not {"", ".", ".."} & set(parts)


class ObjectRequest(NamedTuple):
    """The URL, which is secret if it is signed, and the headers of a request."""

    url: str
    headers: Mapping[str, str] = MappingProxyType({})


def object_request(
    method: Method, stored_object: StoredObject, credential: Credential, region: str = "", endpoint: str = ""
) -> ObjectRequest:
    """Return the request for an object, unsigned if the credential is empty. The ``region`` and ``endpoint`` of the
    credential take precedence. Raises ConfigError, CredentialError.
    """
    region = _check_region(str(credential.get("region") or region))
    store_url = _store_url(stored_object, str(credential.get("endpoint") or endpoint), region)
    if not credential:
        return ObjectRequest(_object_url(store_url, stored_object))
    if account := _service_account(credential):
        if store_url != GOOGLE:
            raise CredentialError(
                "a service account key signs only for gs:// without an endpoint: set access_key_id and "
                "secret_access_key instead"
            )
        return ObjectRequest(_sign_for_google(method, stored_object, account))
    if first_field(credential, _KEY_ID_FIELDS) and first_field(credential, _SECRET_KEY_FIELDS):
        signing_region = region or ("auto" if stored_object.scheme == "gs" else DEFAULT_REGION)
        return ObjectRequest(_sign_for_s3(method, stored_object, credential, store_url, signing_region))
    token = first_field(credential, _TOKEN_FIELDS)
    if token is None or stored_object.scheme != "gs":
        keys = "access_key_id and secret_access_key"
        alternatives = ", service_account_json or token" if stored_object.scheme == "gs" else ""
        raise CredentialError(f"a credential for {stored_object.scheme}:// needs {keys}{alternatives}")
    return ObjectRequest(_object_url(store_url, stored_object), {"Authorization": f"Bearer {token}"})


def error_code(body: bytes | bytearray) -> str:
    """Return the error code in the body of an error response, as `` (NoSuchKey)``; "" if there is none."""
    match = _ERROR_CODE.search(body)
    return "" if match is None else f" ({match[1].decode()})"


def _check_region(region: str) -> str:
    if region and _REGION_NAME.fullmatch(region) is None:
        raise ConfigError(f"the region is {region!r:.60}: write one such as eu-central-1")
    return region


def _store_url(stored_object: StoredObject, endpoint: str, region: str) -> str:
    """Return the URL of the store, without the bucket."""
    if not endpoint:
        return GOOGLE if stored_object.scheme == "gs" else f"https://s3.{region or DEFAULT_REGION}.amazonaws.com"
    try:
        url = httpx.URL(endpoint)
    except httpx.InvalidURL as error:
        raise ConfigError(f"the endpoint of the store is not an address: {error}") from error
    if url.scheme not in ("http", "https") or not url.host or url.userinfo or url.query or url.fragment:
        raise ConfigError("the endpoint of the store is not an address: write https://HOST or http://HOST:PORT")
    return endpoint.rstrip("/")


def _object_url(store_url: str, stored_object: StoredObject) -> str:
    return f"{store_url}/{stored_object.bucket}/{quote(stored_object.key)}"


def _service_account(credential: Credential) -> dict[str, Any] | None:
    """Return the key of a service account, from a field of the credential, or the credential itself; None if it has no
    such key.
    """
    key: Any = next((credential[name] for name in _ACCOUNT_FIELDS if credential.get(name)), None)
    if key is None:
        return dict(credential) if credential.get("private_key") and credential.get("client_email") else None
    try:
        account = json.loads(key) if isinstance(key, str) else key
    except ValueError:
        account = None
    if not isinstance(account, dict):
        raise CredentialError(f"{_ACCOUNT_FIELDS[0]} of the credential is not the JSON of a service account's key")
    return cast("dict[str, Any]", account)


# ---- signatures ------------------------------------------------------------------------------------------------------


def _sign_for_s3(
    method: Method, stored_object: StoredObject, credential: Credential, store_url: str, region: str
) -> str:
    """Sign a URL. Every argument is passed: obstore would read missing ones from the environment, and from the metadata
    service of a cloud.
    """
    _require_library()
    from obstore import sign
    from obstore.store import S3Store

    key_id, secret = first_field(credential, _KEY_ID_FIELDS) or "", first_field(credential, _SECRET_KEY_FIELDS) or ""

    def provide_keys() -> S3Credential:
        token = first_field(credential, _SESSION_FIELDS)
        return {"access_key_id": key_id, "secret_access_key": secret, "token": token, "expires_at": None}

    store = S3Store(
        stored_object.bucket,
        endpoint=store_url,
        region=region,
        virtual_hosted_style_request=False,
        skip_signature=False,
        client_options={"allow_http": True},
        credential_provider=provide_keys,
    )
    return sign(store, method, stored_object.key, _SIGNATURE_LIFETIME)


def _sign_for_google(method: Method, stored_object: StoredObject, account: dict[str, Any]) -> str:
    _require_library()
    from obstore import sign
    from obstore.exceptions import BaseError
    from obstore.store import GCSStore

    fields = {name: account.get(name, "") for name in ("client_email", "private_key", "private_key_id")}
    key = json.dumps({"type": "service_account", **fields})
    try:
        store = GCSStore(stored_object.bucket, service_account_key=key, base_url=GOOGLE)
        return sign(store, method, stored_object.key, _SIGNATURE_LIFETIME)
    except BaseError as error:
        reason = str(error).partition("\n")[0]
        raise CredentialError(f"the key of the service account cannot be used: {reason}") from None


def _require_library() -> None:
    if find_spec("obstore") is None:
        raise ConfigError(
            'the library for object stores is not installed: pip install "noetl-temporal[objectstore]" where it is used'
        )
