"""The artifact tool: puts a value into an object store, or gets one from there."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import io
import json
import zlib

import httpx

from noetl_activities.errors import ConfigError
from noetl_activities.http.data import parse_body
from noetl_activities.http.exchange import MAX_BODY_BYTES, HttpResponse, exchange
from noetl_activities.network.guarded_client import failure_kind, guarded_client
from noetl_activities.object_store import Method, ObjectRequest, StoredObject, error_code, object_request
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.retry_after import retry_after
from noetl_activities.tool import Credential, Json, Request, ToolContext
from noetl_activities.tool_spec import built_in
from noetl_compiler.language.credentials import AUTH_AND_ENDPOINT
from noetl_compiler.language.error_kinds import http_kind

__all__ = ["TOOL", "ArtifactTool"]

_ACTIONS: dict[str, Method] = {"get": "GET", "put": "PUT"}
_GZIP_SUFFIX = ".gz"
_GZIP_MAGIC = b"\x1f\x8b"


class ArtifactTool:
    """The tool artifact. Its fields:

    ``action, uri, data, region, endpoint``, and ``auth``.
    """

    spec = built_in("artifact")

    async def run(self, request: Request, context: ToolContext) -> Outcome:
        """Return ``{uri, size_bytes, sha256}``, and ``data`` for get. A key that ends in .gz means gzip."""
        config = request.config
        action = str(config.get("action") or "")
        if action not in _ACTIONS:
            raise ConfigError(f"action is {action!r:.60}: write get or put")
        if request.auth is not None and config.get("endpoint"):
            reason, hint = AUTH_AND_ENDPOINT
            raise ConfigError(f"the artifact task {reason}: {hint}")
        stored_object = StoredObject.parse(str(config.get("uri") or ""))
        content = await asyncio.to_thread(_encode_data, config) if action == "put" else b""
        credential: Credential = await context.credential(request.auth) if request.auth is not None else {}
        location = (str(config.get(name) or "") for name in ("region", "endpoint"))
        signed_request = object_request(_ACTIONS[action], stored_object, credential, *location)
        operation = f"{action} {stored_object}"
        limit = self.spec.timeout if request.timeout is None else request.timeout
        timer = asyncio.timeout(limit)
        try:
            async with timer:
                response = await (
                    _put(signed_request, stored_object, content, request)
                    if action == "put"
                    else _exchange(signed_request, request)
                )
        except TimeoutError:
            if not timer.expired():
                raise
            error = ErrorInfo("timeout", f"{operation}: the response was not complete after {limit:g} s")
            return Outcome("error", error=error)
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            return Outcome("error", error=ErrorInfo(failure_kind(error), f"{operation}: {reason}"))
        if not response.head.is_success:
            return Outcome("error", error=_response_error(operation, response))
        return Outcome(
            "ok",
            _object_info(stored_object, content) if action == "put" else await _fetched_result(stored_object, response),
        )


async def _put(
    signed_request: ObjectRequest, stored_object: StoredObject, content: bytes, request: Request
) -> HttpResponse:
    body = await asyncio.to_thread(_compress, content) if stored_object.key.endswith(_GZIP_SUFFIX) else content
    is_text = isinstance(request.config["data"], str)
    content_type = "text/plain; charset=utf-8" if is_text else "application/json"
    signed_request = signed_request._replace(headers={**signed_request.headers, "Content-Type": content_type})
    return await _exchange(signed_request, request, body)


async def _exchange(signed_request: ObjectRequest, request: Request, body: bytes | None = None) -> HttpResponse:
    """Send a GET, or with a body a PUT."""
    timeout = httpx.Timeout(None, connect=request.connect_timeout, read=request.read_timeout)
    async with guarded_client(timeout) as client:
        method = "GET" if body is None else "PUT"
        http_request = client.build_request(method, signed_request.url, headers=signed_request.headers, content=body)
        return await exchange(client, http_request, follow_redirects=True)


async def _fetched_result(stored_object: StoredObject, response: HttpResponse) -> dict[str, Json]:
    content = await asyncio.to_thread(_decompress, bytes(response.body))
    data = await parse_body(content, response.head.headers.get("content-type", ""))
    return {**_object_info(stored_object, content), "data": data}


def _object_info(stored_object: StoredObject, content: bytes) -> dict[str, Json]:
    """Return the address, and the size and digest of the value before compression."""
    return {"uri": str(stored_object), "size_bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _response_error(operation: str, response: HttpResponse) -> ErrorInfo:
    head, body = response
    status_line = f"{head.status_code} {head.reason_phrase}".rstrip()
    return ErrorInfo(
        http_kind(head.status_code),
        f"{operation}: the store returned {status_line}{error_code(body)}",
        code=f"HTTP_{head.status_code}",
        status=head.status_code,
        retry_after=retry_after(head.headers.get("retry-after")),
    )


def _encode_data(config: dict[str, Json]) -> bytes:
    """Return the bytes to store: a string as UTF-8, any other value as JSON. Raises ConfigError."""
    if "data" not in config:
        raise ConfigError("an artifact task with action: put needs data: the value to store")
    value: Json = config["data"]
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    content = text.encode()
    if len(content) > MAX_BODY_BYTES:
        raise ConfigError(f"data is over {MAX_BODY_BYTES // 2**20} MB: store it in parts")
    return content


def _compress(content: bytes) -> bytes:
    """Compress without a timestamp, so that equal values give equal objects."""
    return gzip.compress(content, mtime=0)


def _decompress(body: bytes) -> bytes:
    """Return the body, decompressed if it is gzip. Raises ConfigError."""
    if not body.startswith(_GZIP_MAGIC):
        return body
    try:
        with gzip.open(io.BytesIO(body)) as stream:
            content = stream.read(MAX_BODY_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(f"the object is not valid gzip: {error}") from error
    if len(content) > MAX_BODY_BYTES:
        raise ConfigError(f"the object is over {MAX_BODY_BYTES // 2**20} MB when decompressed: store it in parts")
    return content


TOOL = ArtifactTool()
