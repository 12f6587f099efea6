"""One exchange: a request, the redirects that it is sent on by, and the body of the last response.

Redirects are followed here and not by httpx, which would read the body of each without a bound, and takes along what
only the first server may see. On the way to another origin (scheme, host or port differ) a request keeps the headers
of an allow-list; it has no credential, cookie, key or body, whoever put them there. A request that is more than GET or
HEAD is not repeated there at all. Back at the first origin, it does not get them back.
"""

from __future__ import annotations

from typing import NamedTuple

import httpx

from noetl_activities.errors import ConfigError, RefusedError
from noetl_activities.http_body import read_body
from noetl_activities.scrub import CUT_MARGIN

__all__ = ["MAX_BODY_BYTES", "MAX_ERROR_BYTES", "MAX_ERROR_CHARS", "Answer", "exchange"]

MAX_BODY_BYTES = 16 * 1024 * 1024
MAX_ERROR_BYTES = 128 * 1024
"""Of the body of a response that is an error, and is read as a value."""

MAX_ERROR_CHARS = 10_000
"""Of a larger one, which is a text. Secrets in it are masked before it is cut."""

assert MAX_ERROR_BYTES >= 4 * (MAX_ERROR_CHARS + CUT_MARGIN)  # noqa: S101 - a fact of the numbers

MAX_REDIRECTS = 20

_SAFE_HEADERS = ("accept", "accept-encoding", "accept-language", "user-agent")
_SAFE_METHODS = ("GET", "HEAD")


class Answer(NamedTuple):
    """``body`` is unpacked; of a response that is an error it is the beginning."""

    response: httpx.Response
    body: bytearray


async def exchange(client: httpx.AsyncClient, request: httpx.Request, *, follow_redirects: bool) -> Answer:
    """Raises httpx.HTTPError; ConfigError where the body is too large, RefusedError where a redirect is."""
    for _ in range(MAX_REDIRECTS + 1):
        response = await _sent(client, request)
        try:
            following = response.next_request if follow_redirects else None
            if following is None:
                return Answer(response, await _body(response))
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
    """The request with which httpx would follow a redirect, as it may be sent. Raises RefusedError."""
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
