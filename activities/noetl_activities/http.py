"""The http tool (dialects.md 3): one request, its response or its error."""

from __future__ import annotations

import base64
import datetime
import email.utils
import json
import time
from collections.abc import Mapping
from typing import Any, cast

import httpx

from noetl_activities.address_guard import AddressGuard, GuardedTransport
from noetl_activities.errors import ConfigError, CredentialError
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.tool import Credential, Json, Request, ToolContext, ToolSpec

__all__ = ["MAX_BODY_BYTES", "TOOL", "HttpTool"]

MAX_BODY_BYTES = 16 * 1024 * 1024
_MAX_ERROR_CHARS = 10_000
_DEFAULT_TIMEOUT = 60.0
_RETRYABLE = frozenset({408, 425, 429})
_IN_QUERY = frozenset({"GET", "DELETE", "HEAD", "OPTIONS"})


class HttpTool:
    """``method, url|endpoint, headers, params|query, payload|body|json|data|form, auth, verify_ssl,
    follow_redirects``.
    """

    spec = ToolSpec("http", "makes one HTTP request")

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
                trust_env=False,
            ) as client:
                made = _build(client, config, credential)
                response, body = await _exchange(client, made)
        except httpx.TimeoutException as error:
            return _failed("timeout", f"{_where(config)}: no answer in time ({type(error).__name__})")
        except httpx.TransportError as error:
            return _failed("connection", f"{_where(config)}: {error or type(error).__name__}")
        except httpx.TooManyRedirects as error:
            return Outcome("error", error=ErrorInfo("http", f"{_where(config)}: {error}"))
        return _outcome(response, body, time.monotonic() - started, made.url)


def _flag(config: dict[str, Json], name: str, alias: str, default: bool) -> bool:
    value = config.get(name, config.get(alias, default))
    return value if isinstance(value, bool) else str(value).lower() in ("true", "1", "yes")


def _timeouts(request: Request) -> httpx.Timeout:
    total = request.timeout or _DEFAULT_TIMEOUT
    return httpx.Timeout(total, connect=request.connect_timeout or total, read=request.read_timeout or total)


def _where(config: dict[str, Json]) -> str:
    return f"{str(config.get('method') or 'GET').upper()} {config.get('url') or config.get('endpoint')}"


# ---- the request --------------------------------------------------------------------------------------------------


def _build(client: httpx.AsyncClient, config: dict[str, Json], credential: Credential) -> httpx.Request:
    method = str(config.get("method") or "GET").upper()
    url = config.get("url") or config.get("endpoint")
    if not isinstance(url, str) or not url.strip():
        raise ConfigError("an http task needs a url")
    headers = {str(name): _text(value) for name, value in _map(config, "headers").items()}
    headers.update(_authorization(credential))
    query, body = _route_data(method, config)
    try:
        return client.build_request(
            method, url.strip(), params=_params(query) or None, headers=headers, **_body(body, headers)
        )
    except (httpx.InvalidURL, httpx.UnsupportedProtocol, TypeError, ValueError) as error:
        raise ConfigError(f"{_where(config)}: {error}") from error


def _map(config: dict[str, Json], name: str) -> dict[str, Json]:
    value = config.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"{name} is {value!r}: expected a map")
    return cast("dict[str, Json]", value)


def _route_data(method: str, config: dict[str, Json]) -> tuple[dict[str, Json], Json]:
    """(query, body): ``data`` goes where its parts say, else where the method has its data."""
    query = {**_map(config, "params"), **_map(config, "query")}
    names = ("payload", "body", "json", "form")
    body = next((config[name] for name in names if config.get(name) is not None), None)
    data: Json = config.get("data")
    if data is None:
        return query, body
    if isinstance(data, dict) and set(cast("dict[str, Json]", data)) <= {"query", "body"}:
        parts = cast("dict[str, dict[str, Json]]", data)
        return {**query, **(parts.get("query") or {})}, parts.get("body", body)
    if method in _IN_QUERY and isinstance(data, dict):
        return {**query, **cast("dict[str, Json]", data)}, body
    return query, cast("Json", data)


def _params(query: dict[str, Json]) -> dict[str, Any]:
    return {
        name: [_text(one) for one in cast("list[Json]", value)] if isinstance(value, list) else _text(value)
        for name, value in query.items()
        if value is not None
    }


def _text(value: Json) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value) if isinstance(value, dict | list) else str(value)


def _body(body: Json, headers: Mapping[str, str]) -> dict[str, Any]:
    """JSON, unless the Content-Type says form or multipart, or the body is a text already."""
    if body is None:
        return {}
    content_type = next((value for name, value in headers.items() if name.lower() == "content-type"), "").lower()
    if isinstance(body, dict) and "x-www-form-urlencoded" in content_type:
        return {"data": {str(name): _text(value) for name, value in cast("dict[str, Json]", body).items()}}
    if isinstance(body, dict) and "multipart/form-data" in content_type:
        return {"files": {str(name): (None, _text(value)) for name, value in cast("dict[str, Json]", body).items()}}
    return {"content": body.encode()} if isinstance(body, str) else {"json": body}


def _authorization(credential: Credential) -> dict[str, str]:
    """Headers of a credential: bearer, basic or api_key."""
    if not credential:
        return {}
    kind = str(credential.get("type") or "bearer").lower()
    if kind == "basic":
        pair = f"{credential.get('username', credential.get('user', ''))}:{credential.get('password', '')}"
        return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
    if kind in ("api_key", "apikey"):
        name = str(credential.get("header_name") or credential.get("header") or "X-API-Key")
        return {name: _secret(credential, "api_key", "key", "value", "token")}
    return {"Authorization": f"Bearer {_secret(credential, 'token', 'access_token', 'api_key', 'value')}"}


def _secret(credential: Credential, *names: str) -> str:
    found = next((credential[name] for name in names if credential.get(name)), None)
    if found is None:
        raise CredentialError(f"a credential of type {credential.get('type')!r} needs {' or '.join(names)}")
    return str(found)


# ---- the response -------------------------------------------------------------------------------------------------


async def _exchange(client: httpx.AsyncClient, request: httpx.Request) -> tuple[httpx.Response, bytes]:
    response = await client.send(request, stream=True)
    try:
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > MAX_BODY_BYTES:
                raise ConfigError(f"the response is over {MAX_BODY_BYTES // 2**20} MB: ask for less at once")
    finally:
        await response.aclose()
    return response, bytes(body)


def _outcome(response: httpx.Response, body: bytes, elapsed: float, url: httpx.URL) -> Outcome:
    headers = {name.lower(): value for name, value in response.headers.items()}
    facts: dict[str, Json] = {"status": response.status_code, "headers": headers}
    if response.is_success:
        result = {
            "status_code": response.status_code,
            "headers": headers,
            "url": str(url),
            "elapsed": round(elapsed, 4),
            "data": _parsed(response, body),
        }
        return Outcome("ok", result, http=facts)
    text = body.decode("utf-8", "replace")[:_MAX_ERROR_CHARS]
    return Outcome("error", error=_error(response, url), http=facts, meta={"body": text} if text else {})


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


def _error(response: httpx.Response, url: httpx.URL) -> ErrorInfo:
    status = response.status_code
    return ErrorInfo(
        "rate_limit" if status == 429 else "http",
        f"{response.request.method} {url} answered {status} {response.reason_phrase}".rstrip(),
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


def _failed(kind: str, message: str) -> Outcome:
    return Outcome("error", error=ErrorInfo(kind, message, retryable=True))


TOOL = HttpTool()
