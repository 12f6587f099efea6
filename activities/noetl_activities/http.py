"""The http tool: one request, its response or its error."""

from __future__ import annotations

import base64
import datetime
import email.utils
import json
import time
from collections.abc import Awaitable, Callable

import httpx

from noetl_activities.address_guard import AddressGuard, GuardedTransport
from noetl_activities.errors import ConfigError
from noetl_activities.http_request import build, credential_headers, key_headers, where
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.scrub import CUT_MARGIN
from noetl_activities.tool import Credential, Json, Request, ToolContext, ToolSpec

__all__ = ["MAX_BODY_BYTES", "TOOL", "HttpTool"]

MAX_BODY_BYTES = 16 * 1024 * 1024
_MAX_ERROR_CHARS = 10_000
_MAX_ERROR_BYTES = 4 * (_MAX_ERROR_CHARS + CUT_MARGIN)
"""What is read of an error's body: secrets in it are masked before it is cut to the characters above."""

_RETRYABLE = frozenset({408, 425, 429})


class HttpTool:
    """``method, url|endpoint, headers, params|query, payload|body|json|data|form, auth, verify_ssl,
    follow_redirects``.
    """

    spec = ToolSpec("http", "makes one HTTP request", timeout=60.0)

    async def run(self, request: Request, context: ToolContext) -> Outcome:
        """Result ``{status_code, headers, url, elapsed, data}``; any status but 2xx is an error."""
        config = request.config
        credential: Credential = await context.credential(request.auth) if request.auth is not None else {}
        transport = GuardedTransport(
            AddressGuard.from_environment(), verify=_flag(config, "verify_ssl", "verify", True)
        )
        started = time.monotonic()
        try:
            async with httpx.AsyncClient(
                transport=transport,
                timeout=_timeouts(request),
                follow_redirects=_flag(config, "follow_redirects", "allow_redirects", False),
                event_hooks={"request": [_keep_at_home(credential)]},
                trust_env=False,
            ) as client:
                response, body = await _exchange(client, build(client, config, credential, key_headers(request)))
        except httpx.HTTPError as error:
            return _failed(error, where(config))
        return _outcome(response, body, time.monotonic() - started, context)


def _flag(config: dict[str, Json], name: str, alias: str, default: bool) -> bool:
    value = config.get(name, config.get(alias, default))
    return value if isinstance(value, bool) else str(value).lower() in ("true", "1", "yes")


def _timeouts(request: Request) -> httpx.Timeout:
    """Of each part of the exchange. Who runs the tool keeps the limit of the whole."""
    total = request.timeout
    return httpx.Timeout(total, connect=request.connect_timeout or total, read=request.read_timeout or total)


def _keep_at_home(credential: Credential) -> Callable[[httpx.Request], Awaitable[None]]:
    """A hook that takes the credential out of a request that a redirect sends to another server."""
    homes: list[tuple[str, str, int | None]] = []

    async def hook(request: httpx.Request) -> None:
        homes.append((request.url.scheme, request.url.host, request.url.port))
        if homes[-1] != homes[0]:
            for name in credential_headers(credential):
                request.headers.pop(name, None)

    return hook


# ---- the response -------------------------------------------------------------------------------------------------


async def _exchange(client: httpx.AsyncClient, request: httpx.Request) -> tuple[httpx.Response, bytes]:
    response = await client.send(request, stream=True)
    try:
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if not response.is_success and len(body) > _MAX_ERROR_BYTES:
                break
            if len(body) > MAX_BODY_BYTES:
                raise ConfigError(f"the response is over {MAX_BODY_BYTES // 2**20} MB: ask for less at once")
    finally:
        await response.aclose()
    return response, bytes(body)


def _outcome(response: httpx.Response, body: bytes, elapsed: float, context: ToolContext) -> Outcome:
    headers = {name.lower(): value for name, value in response.headers.items()}
    facts: dict[str, Json] = {"status": response.status_code, "headers": headers}
    if response.is_success:
        result = {
            "status_code": response.status_code,
            "headers": headers,
            "url": str(response.url),
            "elapsed": round(elapsed, 4),
            "data": _parsed(response, body),
        }
        return Outcome("ok", result, http=facts)
    text = context.cut(body.decode("utf-8", "replace"), _MAX_ERROR_CHARS)
    return Outcome("error", error=_error(response), http=facts, meta={"body": text} if text else {})


def _parsed(response: httpx.Response, body: bytes) -> Json:
    """JSON where it is JSON, text where it is text, base64 otherwise."""
    if not body:
        return None
    content_type = response.headers.get("content-type", "")
    try:
        text = body.decode(response.charset_encoding or "utf-8")
    except (UnicodeDecodeError, LookupError):
        return {"base64": base64.b64encode(body).decode()}
    if "json" in content_type or text.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text


def _error(response: httpx.Response) -> ErrorInfo:
    status = response.status_code
    return ErrorInfo(
        "rate_limit" if status == 429 else "http",
        f"{response.request.method} {response.url} answered {status} {response.reason_phrase}".rstrip(),
        code=f"HTTP_{status}",
        retryable=status >= 500 or status in _RETRYABLE,
        status=status,
        retry_after=_retry_after(response.headers.get("retry-after")),
    )


def _retry_after(header: str | None) -> float | None:
    """Seconds, given as such or as a date (RFC 9110, 10.2.3)."""
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header)
    try:
        when = email.utils.parsedate_to_datetime(header)
    except ValueError:
        return None
    return max(0.0, (when - datetime.datetime.now(datetime.UTC)).total_seconds())


def _failed(error: httpx.HTTPError, call: str) -> Outcome:
    """No response. Raises ConfigError where the request itself could not be sent."""
    if isinstance(error, httpx.LocalProtocolError):
        raise ConfigError(f"{call}: {error}") from error
    if isinstance(error, httpx.TimeoutException):
        info = ErrorInfo("timeout", f"{call}: no answer in time ({type(error).__name__})", retryable=True)
    elif isinstance(error, httpx.TransportError):
        info = ErrorInfo("connection", f"{call}: {str(error) or type(error).__name__}", retryable=True)
    else:
        info = ErrorInfo("http", f"{call}: {error}")
    return Outcome("error", error=info)


TOOL = HttpTool()
