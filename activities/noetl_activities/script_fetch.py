"""Fetches a script by http, through the guards of the http tool."""

from __future__ import annotations

import asyncio

import httpx

from noetl_activities.address_guard import ALLOW_VARIABLE, AddressGuard
from noetl_activities.errors import RefusedError, ToolError
from noetl_activities.guarded_transport import GuardedTransport
from noetl_activities.http_body import ACCEPT_ENCODING
from noetl_activities.http_cookies import QuietCookieJar
from noetl_activities.http_exchange import exchange
from noetl_activities.stack_ports import StackPorts
from noetl_compiler.scripts import Download, ScriptError

__all__ = ["fetch_script"]


def fetch_script(download: Download) -> bytes:
    """The body of the response. Raises ScriptError. Must not be called in a thread with a running event loop."""
    return asyncio.run(_fetched(download))


async def _fetched(download: Download) -> bytes:
    shown = str(httpx.URL(download.url).copy_with(query=None, userinfo=b""))
    try:
        async with asyncio.timeout(download.timeout), _client(download.timeout) as client:
            request = client.build_request("GET", download.url, headers=dict(download.headers))
            response, body = await exchange(client, request, follow_redirects=True)
    except TimeoutError:
        raise ScriptError(f"cannot fetch {shown}: no complete response after {download.timeout:g} s") from None
    except RefusedError as error:
        hint = f"scripts are fetched by the process that submits the playbook: its own {ALLOW_VARIABLE} counts"
        raise ScriptError(f"cannot fetch {shown}: {error}", hint) from error
    except (httpx.HTTPError, httpx.InvalidURL, ToolError, ValueError) as error:
        raise ScriptError(f"cannot fetch {shown}: {str(error) or type(error).__name__}") from error
    if not response.is_success:
        raise ScriptError(f"cannot fetch {shown}: it returned {response.status_code} {response.reason_phrase}".rstrip())
    return bytes(body)


def _client(timeout: float) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        transport=GuardedTransport(AddressGuard.from_environment(), StackPorts.from_environment(), verify=True),
        headers={"Accept-Encoding": ACCEPT_ENCODING},
        trust_env=False,
        cookies=QuietCookieJar(),
        timeout=timeout,
    )
