"""The transport of the http tool, which refuses addresses that the guards do not allow.

A host is resolved once, all its addresses are checked, and the connection is made to a checked address. So DNS
rebinding, where a name resolves differently the second time, has no effect. Redirects are checked too.
"""

from __future__ import annotations

import contextlib
import functools
import ssl
from typing import cast

import httpx

from noetl_activities.errors import CONNECTION_REFUSED, RefusedError
from noetl_activities.network.address_guard import AddressGuard
from noetl_activities.network.address_ranges import Address
from noetl_activities.network.name_lookup import resolve_host
from noetl_activities.network.stack_ports import StackPorts

__all__ = ["GuardedTransport", "is_caused_by"]


@functools.cache
def _tls_context(verify: bool) -> ssl.SSLContext:
    """Return the TLS context, cached: reading the certificate authorities takes a tenth of a second."""
    return httpx.create_ssl_context(verify=verify, trust_env=False)


class GuardedTransport(httpx.AsyncBaseTransport):
    """Resolves the host, checks its addresses, and connects to one. TLS and the Host header still use the host name."""

    def __init__(self, guard: AddressGuard, stack: StackPorts, verify: bool) -> None:
        self._guard = guard
        self._stack = stack
        self._inner = httpx.AsyncHTTPTransport(verify=_tls_context(verify))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """See httpx.AsyncBaseTransport. Tries the addresses in order, as some may not accept connections."""
        url = request.url
        if url.scheme not in ("http", "https"):
            public_url = url.copy_with(query=None)
            raise RefusedError(f'"{public_url}" is not an http(s) address: begin it with http:// or https://')
        host, port = url.raw_host.decode(), url.port or (443 if url.scheme == "https" else 80)
        addresses = await resolve_host(host, port)
        for address in addresses:
            self._guard.check(host, address)
            await self._stack.check(host, address, port)
        for address in addresses[:-1]:
            with contextlib.suppress(httpx.ConnectError, httpx.ConnectTimeout):
                return await self._inner.handle_async_request(_request_to_address(request, host, address))
        try:
            return await self._inner.handle_async_request(_request_to_address(request, host, addresses[-1]))
        except httpx.ConnectError as error:
            if is_caused_by(error, ConnectionRefusedError):
                raise httpx.ConnectError(CONNECTION_REFUSED) from error
            raise

    async def aclose(self) -> None:
        await self._inner.aclose()


def is_caused_by(error: BaseException | None, kind: type[BaseException]) -> bool:
    """Whether the error has a cause of this type. httpx itself reports only that all connection attempts failed."""
    while error is not None:
        if isinstance(error, kind):
            return True
        if isinstance(error, BaseExceptionGroup):
            return any(
                is_caused_by(exception, kind)
                for exception in cast("BaseExceptionGroup[BaseException]", error).exceptions
            )
        error = error.__cause__ or error.__context__
    return False


def _request_to_address(request: httpx.Request, host: str, address: Address) -> httpx.Request:
    """Return a copy of the request that connects to an address. The client needs the original for redirects."""
    return httpx.Request(
        request.method,
        request.url.copy_with(host=str(address)),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": host},
    )
