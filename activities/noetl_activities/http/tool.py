"""The http tool: sends one request and returns its response or error."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

import httpx

from noetl_activities.errors import ConfigError
from noetl_activities.http.data import parse_body
from noetl_activities.http.exchange import MAX_ERROR_BYTES, MAX_ERROR_CHARS, HttpResponse, exchange
from noetl_activities.http.request import build_request, idempotency_headers, request_summary
from noetl_activities.masked_url import masked_url
from noetl_activities.network.guarded_client import failure_kind, guarded_client
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.retry_after import retry_after
from noetl_activities.tool import Credential, Json, Request, ToolContext
from noetl_activities.tool_spec import built_in
from noetl_compiler.language.error_kinds import http_kind
from noetl_compiler.language.quantities import FALSE_WORDS, TRUE_WORDS

__all__ = ["TOOL", "HttpTool", "outcome_of"]


class HttpTool:
    """The tool http. Its fields:

    ``method, url|endpoint, headers, params|query, payload|body|json|data|form, auth, verify_ssl, follow_redirects``.
    """

    spec = built_in("http")

    async def run(self, request: Request, context: ToolContext) -> Outcome:
        """Return ``{status_code, headers, url, elapsed, data}``, also for error responses: any status but 2xx.

        The timeout limits the whole exchange, so a server that sends single bytes cannot extend it.
        """
        credential: Credential = await context.credential(request.auth) if request.auth is not None else {}
        limit = self.spec.timeout if request.timeout is None else request.timeout
        as_text = _wants_text(request.config)
        start_time = time.monotonic()
        timer = asyncio.timeout(limit)
        try:
            async with timer:
                response = await _exchange(request, credential)
                return await outcome_of(response, time.monotonic() - start_time, context, as_text=as_text)
        except TimeoutError:
            if not timer.expired():
                raise
            message = f"{request_summary(request.config)}: the response was not complete after {limit:g} s"
            return Outcome("error", error=ErrorInfo("timeout", message))
        except httpx.HTTPError as error:
            return _failure_outcome(error, request)


async def _exchange(request: Request, credential: Credential) -> HttpResponse:
    config = request.config
    timeout = httpx.Timeout(None, connect=request.connect_timeout, read=request.read_timeout)
    async with guarded_client(timeout, verify=_read_flag(config, "verify_ssl", "verify", True)) as client:
        http_request = build_request(client, config, credential, idempotency_headers(request))
        return await exchange(
            client, http_request, follow_redirects=_read_flag(config, "follow_redirects", "allow_redirects", False)
        )


_TRUE, _FALSE = TRUE_WORDS | {"on"}, FALSE_WORDS | {"off"}


def _read_flag(config: dict[str, Json], name: str, alias: str, default: bool) -> bool:
    """Read a boolean. Any other word is an error, so that a misspelling never disables the check of a certificate."""
    value = config.get(name, config.get(alias))
    if value is None or isinstance(value, bool):
        return default if value is None else value
    word = str(value).strip().lower()
    if word not in _TRUE | _FALSE:
        raise ConfigError(f"{name} is {value!r:.40}: write true or false")
    return word in _TRUE


def _wants_text(config: dict[str, Json]) -> bool:
    response_type = config.get("response_type")
    if response_type not in (None, "json", "text"):
        raise ConfigError(f"response_type is {response_type!r:.40}: write json or text")
    return response_type == "text"


# ---- the response -------------------------------------------------------------------------------------------------


async def outcome_of(
    http_response: HttpResponse, seconds: float, context: ToolContext, *, as_text: bool = False
) -> Outcome:
    """Return the outcome of a response. ``seconds``: its duration; ``as_text``: do not parse a JSON body."""
    response, body = http_response
    headers = {name.lower(): value for name, value in response.headers.items()}
    result = {
        "status_code": response.status_code,
        "headers": headers,
        "url": masked_url(response.url),
        "elapsed": round(seconds, 4),
        "data": await _response_data(response, body, context, as_text=as_text),
    }
    error = None if response.is_success else _response_error(response)
    return Outcome("error" if error else "ok", result, error, http={"status": response.status_code, "headers": headers})


async def _response_data(response: httpx.Response, body: bytearray, context: ToolContext, *, as_text: bool) -> Json:
    """Return the value of the body. The body of an error response that is too large, for its size or as JSON, is
    returned as text, truncated.
    """
    content_type = response.headers.get("content-type", "")
    if response.is_success:
        return await parse_body(body, content_type, as_text=as_text)
    if len(body) <= MAX_ERROR_BYTES:
        with suppress(ConfigError):
            return await parse_body(body, content_type, as_text=as_text)
    return context.truncate(body.decode("utf-8", "replace"), MAX_ERROR_CHARS)


def _response_error(response: httpx.Response) -> ErrorInfo:
    status, request = response.status_code, response.request
    message = f"{request.method} {_without_query(request.url)} returned {status} {response.reason_phrase}".rstrip()
    if response.has_redirect_location:
        message += (
            f", a redirect to {_without_query(_redirect_target(response))}: set follow_redirects: true to follow it"
        )
    return ErrorInfo(
        http_kind(status),
        message,
        code=f"HTTP_{status}",
        status=status,
        retry_after=retry_after(response.headers.get("retry-after")),
    )


def _redirect_target(response: httpx.Response) -> httpx.URL | str:
    """Return the target of a redirect, as a URL if it is one."""
    try:
        return response.url.join(response.headers["location"])
    except (httpx.InvalidURL, UnicodeError, ValueError):
        return "no valid address"


def _without_query(url: httpx.URL | str) -> str:
    """Remove the query, which may contain secrets, from a URL in a message."""
    return str(url) if isinstance(url, str) else str(url.copy_with(query=None, fragment=None))


def _failure_outcome(error: httpx.HTTPError, request: Request) -> Outcome:
    """Return the outcome of a request without a response. Raises ConfigError if the request is invalid."""
    call = request_summary(request.config)
    if isinstance(error, httpx.LocalProtocolError):
        raise ConfigError(f"{call}: {error}") from error
    if isinstance(error, httpx.TimeoutException):
        return Outcome("error", error=ErrorInfo("timeout", f"{call}: {_timeout_message(error, request)}"))
    return Outcome("error", error=ErrorInfo(failure_kind(error), f"{call}: {str(error) or type(error).__name__}"))


def _timeout_message(error: httpx.TimeoutException, request: Request) -> str:
    """Return what timed out, and after how many seconds."""
    if isinstance(error, httpx.ConnectTimeout):
        return f"no connection after {request.connect_timeout or 0:g} s"
    return f"no data for {request.read_timeout or 0:g} s"


TOOL = HttpTool()
