"""One exchange: a request, its redirects, and the body of the last response.

httpx would follow redirects with secrets in the headers, and read the body of each redirect without a limit. Here, a
request that is redirected to another origin (scheme, host or port differ) keeps only allow-listed headers, without
credentials, cookies, keys or body. Requests other than GET and HEAD are not sent to another origin at all. A redirect
back to the first origin does not restore the headers.
"""

from __future__ import annotations

from typing import NamedTuple

import httpx

from noetl_activities.errors import ConfigError, RefusedError
from noetl_activities.http.body import read_body
from noetl_activities.scrub import TRUNCATION_MARGIN

__all__ = ["MAX_BODY_BYTES", "MAX_ERROR_BYTES", "MAX_ERROR_CHARS", "HttpResponse", "exchange"]

MAX_BODY_BYTES = 16 * 1024 * 1024
MAX_ERROR_BYTES = 128 * 1024
"""Maximum size of the body of an error response that is parsed."""

MAX_ERROR_CHARS = 10_000
"""Maximum length of a larger body, which is kept as text. Secrets are masked before it is truncated."""

assert MAX_ERROR_BYTES >= 4 * (MAX_ERROR_CHARS + TRUNCATION_MARGIN)  # noqa: S101 - holds for these constants

MAX_REDIRECTS = 20

_SAFE_HEADERS = ("accept", "accept-encoding", "accept-language", "user-agent")
_SAFE_METHODS = ("GET", "HEAD")


class HttpResponse(NamedTuple):
    """The head of a response, and its decompressed body, which may be truncated for an error response."""

    head: httpx.Response
    body: bytearray


async def exchange(client: httpx.AsyncClient, request: httpx.Request, *, follow_redirects: bool) -> HttpResponse:
    """Send a request. Raises httpx.HTTPError, ConfigError for a too large body, RefusedError for a refused redirect."""
    for _ in range(MAX_REDIRECTS + 1):
        response = await _send(client, request)
        try:
            next_request = response.next_request if follow_redirects else None
            if next_request is None:
                return HttpResponse(response, await _read_body(response))
        finally:
            await response.aclose()
        request = _redirect_request(request, next_request)
    raise httpx.TooManyRedirects(f"more than {MAX_REDIRECTS} redirects")


async def _send(client: httpx.AsyncClient, request: httpx.Request) -> httpx.Response:
    try:
        return await client.send(request, stream=True)
    except (httpx.InvalidURL, UnicodeError) as error:
        raise httpx.RemoteProtocolError("the redirect has no valid address") from error


async def _read_body(response: httpx.Response) -> bytearray:
    if not response.is_success:
        return await read_body(response, MAX_ERROR_BYTES)
    body = await read_body(response, MAX_BODY_BYTES)
    if len(body) > MAX_BODY_BYTES:
        raise ConfigError(f"the response is over {MAX_BODY_BYTES // 2**20} MB: request less at a time")
    return body


def _redirect_request(request: httpx.Request, redirect: httpx.Request) -> httpx.Request:
    """Return the request for a redirect, without secrets if it goes to another origin. Raises RefusedError."""
    if _origin(request.url) == _origin(redirect.url):
        return redirect
    if redirect.method not in _SAFE_METHODS:
        raise RefusedError(
            f"{request.method} was redirected to another server ({_origin(redirect.url)}), and a request "
            "with a body is not sent to another server: use the new address in the task"
        )
    headers = {name: redirect.headers[name] for name in _SAFE_HEADERS if name in redirect.headers}
    return httpx.Request(redirect.method, redirect.url, headers=headers, extensions=redirect.extensions)


def _origin(url: httpx.URL) -> str:
    """Return ``https://host:port``; a default port is left out."""
    return f"{url.scheme}://{url.netloc.decode('ascii')}"
