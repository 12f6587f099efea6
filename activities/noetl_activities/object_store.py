"""Requests for objects in S3, Google Cloud Storage, and stores that are compatible with S3.

obstore only signs the address (a presigned URL). The request is made by the client of the http tool, whose guards
refuse addresses that are not public.
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

from noetl_activities.errors import ConfigError, CredentialError
from noetl_activities.tool import Credential

if TYPE_CHECKING:
    from obstore.store import S3Credential

__all__ = ["Method", "ObjectRequest", "StoredObject", "error_code", "object_request"]

Method: TypeAlias = Literal["GET", "PUT"]

DEFAULT_REGION = "us-east-1"
GOOGLE = "https://storage.googleapis.com"

_VALID_FOR = timedelta(minutes=15)
"""How long a signed address can be used: longer than a call may wait for its connection."""

_KEY_ID = ("access_key_id", "key_id", "aws_access_key_id")
_SECRET_KEY = ("secret_access_key", "secret_key", "secret", "aws_secret_access_key")
_SESSION = ("session_token", "aws_session_token")
_TOKEN = ("token", "access_token")
_ACCOUNT = ("service_account_json", "service_account_key")

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,221}")
_REGION = re.compile(r"[a-z0-9-]{1,40}")
_MAX_KEY_BYTES = 1024
_CODE = re.compile(rb"<Code>([A-Za-z]{1,60})</Code>")


class StoredObject(NamedTuple):
    """``s3://BUCKET/KEY`` or ``gs://BUCKET/KEY``."""

    scheme: str
    bucket: str
    key: str

    @classmethod
    def at(cls, address: str) -> StoredObject:
        """Parse an address. Raises ConfigError."""
        scheme, mark, rest = address.partition("://")
        bucket, _, key = rest.partition("/")
        if not mark or scheme not in ("s3", "gs"):
            raise ConfigError(
                f'"{address:.200}" is not the address of an object: write s3://BUCKET/KEY or gs://BUCKET/KEY'
            )
        if _BUCKET.fullmatch(bucket) is None:
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
    method: Method, stored: StoredObject, credential: Credential, region: str = "", endpoint: str = ""
) -> ObjectRequest:
    """A request for an object, without a signature if the credential is empty. ``region`` and ``endpoint`` apply if the
    credential has none. Raises ConfigError, CredentialError.
    """
    region = _region(str(credential.get("region") or region))
    base = _base(stored, str(credential.get("endpoint") or endpoint), region)
    if not credential:
        return ObjectRequest(_unsigned(base, stored))
    if account := _service_account(credential):
        if base != GOOGLE:
            raise CredentialError(
                "a service account key signs only for gs:// without an endpoint: set access_key_id and "
                "secret_access_key instead"
            )
        return ObjectRequest(_signed_by_google(method, stored, account))
    if _first(credential, _KEY_ID) and _first(credential, _SECRET_KEY):
        signing_region = region or ("auto" if stored.scheme == "gs" else DEFAULT_REGION)
        return ObjectRequest(_signed(method, stored, credential, base, signing_region))
    token = _first(credential, _TOKEN)
    if token is None or stored.scheme != "gs":
        needs = "access_key_id and secret_access_key"
        more = ", service_account_json or token" if stored.scheme == "gs" else ""
        raise CredentialError(f"a credential for {stored.scheme}:// needs {needs}{more}")
    return ObjectRequest(_unsigned(base, stored), {"Authorization": f"Bearer {token}"})


def error_code(body: bytes | bytearray) -> str:
    """The error code in the body of an error response, as `` (NoSuchKey)``; "" if there is none."""
    match = _CODE.search(body)
    return "" if match is None else f" ({match[1].decode()})"


def _first(credential: Credential, names: tuple[str, ...]) -> str | None:
    return next((str(credential[name]) for name in names if credential.get(name)), None)


def _region(given: str) -> str:
    if given and _REGION.fullmatch(given) is None:
        raise ConfigError(f"the region is {given!r:.60}: write one such as eu-central-1")
    return given


def _base(stored: StoredObject, endpoint: str, region: str) -> str:
    """The URL of the store, without the bucket."""
    if not endpoint:
        return GOOGLE if stored.scheme == "gs" else f"https://s3.{region or DEFAULT_REGION}.amazonaws.com"
    try:
        url = httpx.URL(endpoint)
    except httpx.InvalidURL as error:
        raise ConfigError(f"the endpoint of the store is not an address: {error}") from error
    if url.scheme not in ("http", "https") or not url.host or url.userinfo or url.query or url.fragment:
        raise ConfigError("the endpoint of the store is not an address: write https://HOST or http://HOST:PORT")
    return endpoint.rstrip("/")


def _unsigned(base: str, stored: StoredObject) -> str:
    return f"{base}/{stored.bucket}/{quote(stored.key)}"


def _service_account(credential: Credential) -> dict[str, Any] | None:
    """The key of a service account: in a field of the credential, or its fields themselves."""
    given: Any = next((credential[name] for name in _ACCOUNT if credential.get(name)), None)
    if given is None:
        return dict(credential) if credential.get("private_key") and credential.get("client_email") else None
    try:
        account = json.loads(given) if isinstance(given, str) else given
    except ValueError:
        account = None
    if not isinstance(account, dict):
        raise CredentialError(f"{_ACCOUNT[0]} of the credential is not the JSON of a service account's key")
    return cast("dict[str, Any]", account)


# ---- signatures ------------------------------------------------------------------------------------------------------


def _signed(method: Method, stored: StoredObject, credential: Credential, base: str, region: str) -> str:
    """Everything is given: obstore would look for what is missing in the environment and at the cloud's metadata."""
    _require_library()
    from obstore import sign
    from obstore.store import S3Store

    key_id, secret = _first(credential, _KEY_ID) or "", _first(credential, _SECRET_KEY) or ""

    def keys() -> S3Credential:
        token = _first(credential, _SESSION)
        return {"access_key_id": key_id, "secret_access_key": secret, "token": token, "expires_at": None}

    store = S3Store(
        stored.bucket,
        endpoint=base,
        region=region,
        virtual_hosted_style_request=False,
        skip_signature=False,
        client_options={"allow_http": True},
        credential_provider=keys,
    )
    return sign(store, method, stored.key, _VALID_FOR)


def _signed_by_google(method: Method, stored: StoredObject, account: dict[str, Any]) -> str:
    _require_library()
    from obstore import sign
    from obstore.exceptions import BaseError
    from obstore.store import GCSStore

    fields = {name: account.get(name, "") for name in ("client_email", "private_key", "private_key_id")}
    key = json.dumps({"type": "service_account", **fields})
    try:
        store = GCSStore(stored.bucket, service_account_key=key, base_url=GOOGLE)
        return sign(store, method, stored.key, _VALID_FOR)
    except BaseError as error:
        reason = str(error).partition("\n")[0]
        raise CredentialError(f"the key of the service account cannot be used: {reason}") from None


def _require_library() -> None:
    if find_spec("obstore") is None:
        raise ConfigError(
            'the library for object stores is not installed: pip install "noetl-temporal[objectstore]" where it is used'
        )
