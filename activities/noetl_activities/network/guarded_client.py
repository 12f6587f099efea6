"""An HTTP client that connects only to allowed addresses, and keeps nothing between calls."""

from __future__ import annotations

import ssl

import httpx

from noetl_activities.http.body import ACCEPT_ENCODING
from noetl_activities.http.cookies import QuietCookieJar
from noetl_activities.network.address_guard import AddressGuard
from noetl_activities.network.guarded_transport import GuardedTransport, is_caused_by
from noetl_activities.network.name_lookup import UnknownHostError
from noetl_activities.network.stack_ports import StackPorts

__all__ = ["failure_kind", "guarded_client"]


def guarded_client(timeout: httpx.Timeout, *, verify: bool = True) -> httpx.AsyncClient:
    """Return a client that does not follow redirects. ``verify``: check the certificates of servers."""
    return httpx.AsyncClient(
        transport=GuardedTransport(AddressGuard.from_environment(), StackPorts.from_environment(), verify=verify),
        headers={"Accept-Encoding": ACCEPT_ENCODING},
        timeout=timeout,
        trust_env=False,
        cookies=QuietCookieJar(),
    )


def failure_kind(error: httpx.HTTPError) -> str:
    """Return the error kind of a request that got no response."""
    if isinstance(error, httpx.TimeoutException):
        return "timeout"
    if isinstance(error, UnknownHostError):
        return "dns"
    if isinstance(error, httpx.ConnectError) and is_caused_by(error, ssl.SSLError):
        return "tls"
    if isinstance(error, httpx.TooManyRedirects):
        return "client_error"
    return "connection" if isinstance(error, httpx.TransportError) else "server_error"
