"""One exchange: a request, its redirects, and the body of the last response.

Redirects are followed here instead of by httpx, which reads the body of each without a limit and forwards secrets. A
request that is redirected to another origin (scheme, host or port differ) only keeps allow-listed headers, without
credentials, cookies, keys or body. Requests other than GET and HEAD are not sent to another origin at all. A redirect
back to the first origin does not restore the headers.
"""

from __future__ import annotations

from typing import NamedTuple

import httpx

from noetl_activities.errors import ConfigError, RefusedError
from noetl_activities.http_body import read_body
from noetl_activities.scrub import CUT_MARGIN

__all__ = ["MAX_BODY_BYTES", "MAX_ERROR_BYTES", "MAX_ERROR_CHARS", "HttpResponse", "exchange"]

MAX_BODY_BYTES = 16 * 1024 * 1024
MAX_ERROR_BYTES = 128 * 1024
"""Maximum size of the body of an error response that is parsed."""

MAX_ERROR_CHARS = 10_000
"""Maximum length of a larger body, which is kept as text. Secrets are masked before it is truncated."""

assert MAX_ERROR_BYTES >= 4 * (MAX_ERROR_CHARS + CUT_MARGIN)  # noqa: S101 - a fact of the numbers

MAX_REDIRECTS = 20

_SAFE_HEADERS = ("accept", "accept-encoding", "accept-language", "user-agent")
_SAFE_METHODS = ("GET", "HEAD")


class HttpResponse(NamedTuple):
    """A response with its decompressed body; the body of an error response may be truncated."""

    response: httpx.Response
    body: bytearray


async def exchange(client: httpx.AsyncClient, request: httpx.Request, *, follow_redirects: bool) -> HttpResponse:
    """Send a request. Raises httpx.HTTPError, ConfigError for a too large body, RefusedError for a refused redirect."""
    for _ in range(MAX_REDIRECTS + 1):
        response = await _sent(client, request)
        try:
            following = response.next_request if follow_redirects else None
            if following is None:
                return HttpResponse(response, await _body(response))
        finally:
            await response.aclose()
        request = _redirected(request, following)
    raise httpx.TooManyRedirects(f"more than {MAX_REDIRECTS} redirects")


async def _sent(client: httpx.AsyncClient, request: httpx.Request) -> httpx.Response:
    try:
        return await client.send(request, stream=True)
    except (httpx.InvalidURL, UnicodeError) as error:
        raise httpx.RemoteProtocolError("the redirect has no valid address") from error


async def _body(response: httpx.Response) -> bytearray:
    if not response.is_success:
        return await read_body(response, MAX_ERROR_BYTES)
    body = await read_body(response, MAX_BODY_BYTES)
    if len(body) > MAX_BODY_BYTES:
        raise ConfigError(f"the response is over {MAX_BODY_BYTES // 2**20} MB: request less at a time")
    return body


def _redirected(request: httpx.Request, following: httpx.Request) -> httpx.Request:
    """Return httpx's request for a redirect, stripped for another origin. Raises RefusedError."""
    if _origin(request.url) == _origin(following.url):
        return following
    if following.method not in _SAFE_METHODS:
        raise RefusedError(
            f"{request.method} was redirected to another server ({_origin(following.url)}), and a request "
            "with a body is not sent to another server: use the new address in the task"
        )
    headers = {name: following.headers[name] for name in _SAFE_HEADERS if name in following.headers}
    return httpx.Request(following.method, following.url, headers=headers, extensions=following.extensions)


def _origin(url: httpx.URL) -> str:
    """``https://host:port``; a default port is left out."""
    return f"{url.scheme}://{url.netloc.decode('ascii')}"
