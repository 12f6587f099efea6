"""The http tool: one request, its response or its error."""

from __future__ import annotations

import asyncio
import time

import httpx

from noetl_activities.address_guard import AddressGuard
from noetl_activities.errors import ConfigError
from noetl_activities.guarded_transport import GuardedTransport
from noetl_activities.http_body import ACCEPT_ENCODING
from noetl_activities.http_cookies import QuietCookieJar
from noetl_activities.http_data import data_of
from noetl_activities.http_exchange import MAX_ERROR_CHARS, Answer, exchange
from noetl_activities.http_request import build, key_headers, where
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.retry_after import retry_after
from noetl_activities.stack_ports import StackPorts
from noetl_activities.tool import Credential, Json, Request, ToolContext
from noetl_activities.tool_spec import built_in
from noetl_compiler.language.quantities import FALSE_WORDS, TRUE_WORDS

__all__ = ["TOOL", "HttpTool", "outcome_of"]

_RETRYABLE = frozenset({408, 425, 429})


class HttpTool:
    """``method, url|endpoint, headers, params|query, payload|body|json|data|form, auth, verify_ssl,
    follow_redirects``.
    """

    spec = built_in("http")

    async def run(self, request: Request, context: ToolContext) -> Outcome:
        """Result ``{status_code, headers, url, elapsed, data}``; any status but 2xx is an error.

        The timeout is that of the whole exchange: a server that sends a byte now and then gains nothing.
        """
        credential: Credential = await context.credential(request.auth) if request.auth is not None else {}
        limit = self.spec.timeout if request.timeout is None else request.timeout
        started = time.monotonic()
        timer = asyncio.timeout(limit)
        try:
            async with timer:
                answer = await _exchange(request, credential)
                return await outcome_of(answer, time.monotonic() - started, context)
        except TimeoutError:
            if not timer.expired():
                raise
            message = f"{where(request.config)}: the response was not complete after {limit:g} s"
            return Outcome("error", error=ErrorInfo("timeout", message, retryable=True))
        except httpx.HTTPError as error:
            return _failed(error, where(request.config))


async def _exchange(request: Request, credential: Credential) -> Answer:
    config = request.config
    transport = GuardedTransport(
        AddressGuard.from_environment(),
        StackPorts.from_environment(),
        verify=_flag(config, "verify_ssl", "verify", True),
    )
    async with httpx.AsyncClient(
        transport=transport,
        headers={"Accept-Encoding": ACCEPT_ENCODING},
        timeout=httpx.Timeout(None, connect=request.connect_timeout, read=request.read_timeout),
        trust_env=False,
        cookies=QuietCookieJar(),
    ) as client:
        made = build(client, config, credential, key_headers(request))
        return await exchange(
            client, made, follow_redirects=_flag(config, "follow_redirects", "allow_redirects", False)
        )


_TRUE, _FALSE = TRUE_WORDS | {"on"}, FALSE_WORDS | {"off"}


def _flag(config: dict[str, Json], name: str, alias: str, default: bool) -> bool:
    """A word that is no boolean is refused: one that is misspelt must not switch the check of a certificate off."""
    value = config.get(name, config.get(alias))
    if value is None or isinstance(value, bool):
        return default if value is None else value
    word = str(value).strip().lower()
    if word not in _TRUE | _FALSE:
        raise ConfigError(f"{name} is {value!r:.40}: write true or false")
    return word in _TRUE


# ---- the response -------------------------------------------------------------------------------------------------


async def outcome_of(answer: Answer, elapsed: float, context: ToolContext) -> Outcome:
    """What a response means. ``elapsed`` in seconds."""
    response, body = answer
    headers = {name.lower(): value for name, value in response.headers.items()}
    facts: dict[str, Json] = {"status": response.status_code, "headers": headers}
    if response.is_success:
        result = {
            "status_code": response.status_code,
            "headers": headers,
            "url": str(response.url),
            "elapsed": round(elapsed, 4),
            "data": await data_of(body, response.headers.get("content-type", "")),
        }
        return Outcome("ok", result, http=facts)
    text = context.cut(body.decode("utf-8", "replace"), MAX_ERROR_CHARS)
    return Outcome("error", error=_error(response), http=facts, meta={"body": text} if text else {})


def _error(response: httpx.Response) -> ErrorInfo:
    status = response.status_code
    return ErrorInfo(
        "rate_limit" if status == 429 else "http",
        f"{response.request.method} {response.url} returned {status} {response.reason_phrase}".rstrip(),
        code=f"HTTP_{status}",
        retryable=status >= 500 or status in _RETRYABLE,
        status=status,
        retry_after=retry_after(response.headers.get("retry-after")),
    )


def _failed(error: httpx.HTTPError, call: str) -> Outcome:
    """No response. Raises ConfigError where the request itself could not be sent."""
    if isinstance(error, httpx.LocalProtocolError):
        raise ConfigError(f"{call}: {error}") from error
    if isinstance(error, httpx.TimeoutException):
        info = ErrorInfo("timeout", f"{call}: timed out ({type(error).__name__})", retryable=True)
    elif isinstance(error, httpx.TransportError):
        info = ErrorInfo("connection", f"{call}: {str(error) or type(error).__name__}", retryable=True)
    else:
        info = ErrorInfo("http", f"{call}: {error}")
    return Outcome("error", error=info)


TOOL = HttpTool()
