"""Read from the source of a script how to fetch it by http or from an object store.

script: {uri: job.py, source: {type: http, endpoint: https://example.com/job.py}}
script: {uri: s3://bucket/job.py, source: {type: s3, auth: backup}}
script: {uri: job.py, source: {type: gcs, bucket: bucket, auth: gcs_service_account}}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple, cast

from noetl_compiler.graph import Json
from noetl_compiler.language import keys
from noetl_compiler.language.credentials import AUTH_AND_ENDPOINT
from noetl_compiler.language.quantities import parse_duration
from noetl_compiler.language.scripts import OBJECT_STORES
from noetl_compiler.script_files import ScriptError

__all__ = ["Download", "read_download", "redacted_address"]

DEFAULT_SECONDS = 30.0
MAX_SECONDS = 600
"""The longest timeout that a source may set."""

_SECRET_PARTS = re.compile(r"(?<=//)[^/@\s]*@|[?#].*", re.DOTALL)
"""Parts of an http address that may contain a credential: the user before the host, and the query."""


class Download(NamedTuple):
    """A request for a script. ``url`` is an http(s) address, or ``s3://BUCKET/KEY`` or ``gs://BUCKET/KEY``, for which
    ``region`` and ``endpoint`` may name the server. ``auth`` is the name of a credential, "" for none. ``timeout`` is
    in seconds, for the whole request.
    """

    url: str
    headers: tuple[tuple[str, str], ...] = ()
    timeout: float = DEFAULT_SECONDS
    auth: str = ""
    region: str = ""
    endpoint: str = ""


def read_download(script: Mapping[str, Json], kind: str, address: str) -> Download:
    """Return the request for a script from a source of this kind. Raises ScriptError."""
    source_field: Json = script.get("source")
    source = cast("dict[str, Json]", source_field) if isinstance(source_field, dict) else {}
    seconds, auth = _timeout_of(source.get("timeout")), _credential_of(source)
    if kind not in OBJECT_STORES:
        return Download(_http_address(source, address), _headers_of(source), seconds, auth)
    region, endpoint = (str(source.get(name) or "") for name in ("region", "endpoint"))
    if auth and endpoint:
        reason, hint = AUTH_AND_ENDPOINT
        raise ScriptError(f"the source of the script {reason}", hint)
    url = _store_address(OBJECT_STORES[kind], source, address)
    return Download(url, (), seconds, auth, region, endpoint)


def redacted_address(url: str) -> str:
    """Return the address without parts that may be secret. Addresses in object stores are returned whole."""
    return (
        url
        if url.startswith(tuple(f"{scheme}://" for scheme in OBJECT_STORES.values()))
        else _SECRET_PARTS.sub("", url)
    )


def _credential_of(source: Mapping[str, Json]) -> str:
    name: Json = next((source[key] for key in keys.AUTH if source.get(key)), "")
    if not isinstance(name, str):
        raise ScriptError("auth of a script's source is not the name of a credential", "write auth: NAME")
    return name


def _http_address(source: Mapping[str, Json], address: str) -> str:
    url, method = str(source.get("endpoint") or address), str(source.get("method") or "GET").upper()
    if method != "GET":
        raise ScriptError(f"a script is fetched by GET, not by {method}")
    if not url.startswith(("http://", "https://")):
        raise ScriptError(f'"{redacted_address(url)}" is not an http(s) address', "begin it with http:// or https://")
    return url


def _headers_of(source: Mapping[str, Json]) -> tuple[tuple[str, str], ...]:
    headers: Json = source.get("headers") or {}
    if not isinstance(headers, dict):
        raise ScriptError("the headers of a script's source are not a mapping")
    return tuple((str(name), str(value)) for name, value in cast("dict[str, Json]", headers).items())


def _store_address(scheme: str, source: Mapping[str, Json], address: str) -> str:
    if address.startswith(f"{scheme}://"):
        return address
    if "://" in address:
        raise ScriptError(
            f'"{redacted_address(address)}" is not an address of this source', f"write {scheme}://BUCKET/KEY"
        )
    bucket = source.get("bucket")
    if not bucket:
        raise ScriptError("the source of the script names no bucket", f"set bucket, or write {scheme}://BUCKET/KEY")
    return f"{scheme}://{bucket}/{address.lstrip('/')}"


def _timeout_of(timeout: Json) -> float:
    if timeout in (None, ""):
        return DEFAULT_SECONDS
    seconds = parse_duration(str(timeout))
    if seconds is None or not 0 < seconds <= MAX_SECONDS:
        raise ScriptError(
            f"the timeout of a script's source is {timeout!r:.40}", f"write seconds, at most {MAX_SECONDS}"
        )
    return seconds
