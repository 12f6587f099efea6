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
from noetl_activities.guarded_client import failure_kind, guarded_client
from noetl_activities.http_data import data_of
from noetl_activities.http_exchange import MAX_BODY_BYTES, HttpResponse, exchange
from noetl_activities.object_store import Method, ObjectRequest, StoredObject, error_code, object_request
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.retry_after import retry_after
from noetl_activities.tool import Credential, Json, Request, ToolContext
from noetl_activities.tool_spec import built_in
from noetl_compiler.language.error_kinds import http_kind
from noetl_compiler.language.keys import AUTH_AND_ENDPOINT

__all__ = ["TOOL", "ArtifactTool"]

_ACTIONS: dict[str, Method] = {"get": "GET", "put": "PUT"}
_GZIP_SUFFIX = ".gz"
_GZIP_MAGIC = b"\x1f\x8b"


class ArtifactTool:
    """``action, uri, data, region, endpoint``, and ``auth``."""

    spec = built_in("artifact")

    async def run(self, request: Request, context: ToolContext) -> Outcome:
        """Return ``{uri, size_bytes, sha256}``, with get also ``data``. A key that ends with .gz is compressed."""
        config = request.config
        action = str(config.get("action") or "")
        if action not in _ACTIONS:
            raise ConfigError(f"action is {action!r:.60}: write get or put")
        if request.auth is not None and config.get("endpoint"):
            why, hint = AUTH_AND_ENDPOINT
            raise ConfigError(f"the artifact task {why}: {hint}")
        stored = StoredObject.at(str(config.get("uri") or ""))
        content = await asyncio.to_thread(_content, config) if action == "put" else b""
        credential: Credential = await context.credential(request.auth) if request.auth is not None else {}
        where = (str(config.get(name) or "") for name in ("region", "endpoint"))
        signed = object_request(_ACTIONS[action], stored, credential, *where)
        operation = f"{action} {stored}"
        limit = self.spec.timeout if request.timeout is None else request.timeout
        timer = asyncio.timeout(limit)
        try:
            async with timer:
                received = await (
                    _put(signed, stored, content, request) if action == "put" else _exchange(signed, request)
                )
        except TimeoutError:
            if not timer.expired():
                raise
            error = ErrorInfo("timeout", f"{operation}: the response was not complete after {limit:g} s")
            return Outcome("error", error=error)
        except httpx.HTTPError as error:
            why = str(error) or type(error).__name__
            return Outcome("error", error=ErrorInfo(failure_kind(error), f"{operation}: {why}"))
        if not received.response.is_success:
            return Outcome("error", error=_error_response(operation, received))
        return Outcome("ok", _facts(stored, content) if action == "put" else await _value(stored, received))


async def _put(signed: ObjectRequest, stored: StoredObject, content: bytes, request: Request) -> HttpResponse:
    body = await asyncio.to_thread(_compressed, content) if stored.key.endswith(_GZIP_SUFFIX) else content
    is_text = isinstance(request.config["data"], str)
    content_type = "text/plain; charset=utf-8" if is_text else "application/json"
    signed = signed._replace(headers={**signed.headers, "Content-Type": content_type})
    return await _exchange(signed, request, body)


async def _exchange(signed: ObjectRequest, request: Request, body: bytes | None = None) -> HttpResponse:
    """Send a GET, or with a body a PUT."""
    timeout = httpx.Timeout(None, connect=request.connect_timeout, read=request.read_timeout)
    async with guarded_client(timeout) as client:
        method = "GET" if body is None else "PUT"
        sent = client.build_request(method, signed.url, headers=signed.headers, content=body)
        return await exchange(client, sent, follow_redirects=True)


async def _value(stored: StoredObject, received: HttpResponse) -> dict[str, Json]:
    content = await asyncio.to_thread(_decompressed, bytes(received.body))
    data = await data_of(content, received.response.headers.get("content-type", ""))
    return {**_facts(stored, content), "data": data}


def _facts(stored: StoredObject, content: bytes) -> dict[str, Json]:
    """Size and digest are those of the value before compression."""
    return {"uri": str(stored), "size_bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _error_response(operation: str, received: HttpResponse) -> ErrorInfo:
    response = received.response
    status_line = f"{response.status_code} {response.reason_phrase}".rstrip()
    return ErrorInfo(
        http_kind(response.status_code),
        f"{operation}: the store returned {status_line}{error_code(received.body)}",
        code=f"HTTP_{response.status_code}",
        status=response.status_code,
        retry_after=retry_after(response.headers.get("retry-after")),
    )


def _content(config: dict[str, Json]) -> bytes:
    """Return the value to store: text as UTF-8, any other value as JSON. Raises ConfigError."""
    if "data" not in config:
        raise ConfigError("an artifact task with action: put needs data: the value to store")
    value: Json = config["data"]
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    content = text.encode()
    if len(content) > MAX_BODY_BYTES:
        raise ConfigError(f"data is over {MAX_BODY_BYTES // 2**20} MB: store it in parts")
    return content


def _compressed(content: bytes) -> bytes:
    """Compress without a timestamp, so that equal values give equal objects."""
    return gzip.compress(content, mtime=0)


def _decompressed(body: bytes) -> bytes:
    """Return the body, decompressed if it is gzip. Raises ConfigError."""
    if not body.startswith(_GZIP_MAGIC):
        return body
    try:
        with gzip.open(io.BytesIO(body)) as parts:
            content = parts.read(MAX_BODY_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(f"the object is not valid gzip: {error}") from error
    if len(content) > MAX_BODY_BYTES:
        raise ConfigError(f"the object is over {MAX_BODY_BYTES // 2**20} MB when decompressed: store it in parts")
    return content


TOOL = ArtifactTool()
