"""Keeps the http tool from reaching what a playbook must not reach (server-side request forgery).

A host is resolved once, every address is judged, and the connection goes to the address that was judged, so a name
that answers differently the second time gains nothing. Redirects come through here again.

Public addresses are allowed. Loopback and private ones only where NOETL_HTTP_ALLOW lists them (hosts or networks, by
comma); link-local (where clouds keep their metadata), multicast and unspecified addresses never are.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ipaddress
import os
import socket
import ssl
from typing import TypeAlias, cast

import httpx
import msgspec

from noetl_activities.errors import RefusedError

__all__ = ["ALLOW_VARIABLE", "AddressGuard", "GuardedTransport"]

ALLOW_VARIABLE = "NOETL_HTTP_ALLOW"

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_UNKNOWN_HOST = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))

_NEVER = (ipaddress.ip_network("fd00:ec2::/32"), ipaddress.ip_network("100.100.100.200/32"))
"""Cloud metadata outside of link-local ranges."""

_EMBEDS = tuple(map(ipaddress.IPv6Network, ("::/96", "64:ff9b::/96", "64:ff9b:1::/48")))
"""IPv6 whose last 32 bits are an IPv4 address: IPv4-compatible, and NAT64 (RFC 6052, RFC 8215)."""


class AddressGuard(msgspec.Struct, frozen=True):
    """``hosts`` and ``networks`` that are allowed although they are not public."""

    hosts: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = ()

    @classmethod
    def from_text(cls, text: str) -> AddressGuard:
        """Read ``localhost, 10.0.0.0/8, db.internal``. ValueError never: what is no network is a host."""
        hosts: set[str] = set()
        networks: list[Network] = []
        for entry in filter(None, (one.strip() for one in text.split(","))):
            try:
                networks.append(ipaddress.ip_network(entry, strict=False))
            except ValueError:
                hosts.add(entry.lower())
        return cls(frozenset(hosts), tuple(networks))

    @classmethod
    def from_environment(cls) -> AddressGuard:
        """The guard that NOETL_HTTP_ALLOW describes."""
        return cls.from_text(os.environ.get(ALLOW_VARIABLE, ""))

    def check(self, host: str, address: Address) -> None:
        """Raises RefusedError."""
        address = _unmapped(address)
        if _never(address):
            raise RefusedError(f"{host} is {address}: link-local, metadata and multicast addresses are never called")
        if address.is_global or host.lower() in self.hosts:
            return
        if not any(address.version == one.version and address in one for one in self.networks):
            named = str(address) if host.strip("[]") == str(address) else f"{host} is {address}, which"
            raise RefusedError(
                f"{named} is not public: to allow it, add it to {ALLOW_VARIABLE} of the worker "
                "and start the worker again"
            )


def _unmapped(address: Address) -> Address:
    """IPv4 inside of IPv6 is judged as IPv4."""
    if not isinstance(address, ipaddress.IPv6Address) or address.is_loopback or address.is_unspecified:
        return address
    if any(address in one for one in _EMBEDS):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def _never(address: Address) -> bool:
    return (
        address.is_link_local
        or address.is_multicast
        or address.is_unspecified
        or any(address.version == one.version and address in one for one in _NEVER)
    )


@functools.cache
def _tls(verify: bool) -> ssl.SSLContext:
    """Made once: reading the certificate authorities takes a tenth of a second."""
    return httpx.create_ssl_context(verify=verify, trust_env=False)


class GuardedTransport(httpx.AsyncBaseTransport):
    """Resolves, judges, and calls the address in place of the name; TLS and the Host header still have the name."""

    def __init__(self, guard: AddressGuard, verify: bool) -> None:
        self._guard = guard
        self._inner = httpx.AsyncHTTPTransport(verify=_tls(verify))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """See httpx.AsyncBaseTransport. Addresses are tried in turn, as a name may have one that nobody listens on."""
        url = request.url
        if url.scheme not in ("http", "https"):
            shown = url.copy_with(query=None)
            raise RefusedError(f'"{shown}" is not an http(s) address: begin it with http:// or https://')
        host = url.raw_host.decode()
        addresses = await _resolve(host, url.port or (443 if url.scheme == "https" else 80))
        for address in addresses:
            self._guard.check(host, address)
        for address in addresses[:-1]:
            with contextlib.suppress(httpx.ConnectError, httpx.ConnectTimeout):
                return await self._inner.handle_async_request(_pinned(request, host, address))
        try:
            return await self._inner.handle_async_request(_pinned(request, host, addresses[-1]))
        except httpx.ConnectError as error:
            if _is_refused(error):
                raise httpx.ConnectError("connection refused: nothing listens there") from error
            raise

    async def aclose(self) -> None:
        await self._inner.aclose()


def _is_refused(error: BaseException | None) -> bool:
    """Whether somewhere beneath a connection was refused: httpx says only that all attempts failed."""
    while error is not None:
        if isinstance(error, ConnectionRefusedError):
            return True
        if isinstance(error, BaseExceptionGroup):
            return any(map(_is_refused, cast("BaseExceptionGroup[BaseException]", error).exceptions))
        error = error.__cause__ or error.__context__
    return False


def _pinned(request: httpx.Request, host: str, address: Address) -> httpx.Request:
    """A request of its own: the client goes on from the one it made, to the name, when it follows a redirect."""
    return httpx.Request(
        request.method,
        request.url.copy_with(host=str(address)),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": host},
    )


async def _resolve(host: str, port: int) -> list[Address]:
    try:
        return [ipaddress.ip_address(host.strip("[]"))]
    except ValueError:
        pass
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        if isinstance(error, socket.gaierror) and error.errno in _UNKNOWN_HOST:
            raise httpx.ConnectError(f"there is no host named {host}") from error
        raise httpx.ConnectError(f"the name {host} cannot be resolved: {error}") from error
    return [ipaddress.ip_address(str(one[4][0]).partition("%")[0]) for one in found]
