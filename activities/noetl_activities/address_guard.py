"""Keeps the http tool from reaching what a playbook must not reach (server-side request forgery).

A host is resolved once, every address is judged, and the connection goes to the address that was judged, so a name
that answers differently the second time gains nothing. Redirects come through here again.

Public addresses are allowed. Loopback and private ones only where NOETL_HTTP_ALLOW lists them (hosts or networks, by
comma); link-local (where clouds keep their metadata), multicast and unspecified addresses never are.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
from typing import TypeAlias

import httpx
import msgspec

from noetl_activities.errors import RefusedError

__all__ = ["ALLOW_VARIABLE", "AddressGuard", "GuardedTransport"]

ALLOW_VARIABLE = "NOETL_HTTP_ALLOW"

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_NEVER = (ipaddress.ip_network("fd00:ec2::/32"), ipaddress.ip_network("100.100.100.200/32"))
"""Cloud metadata outside of link-local ranges."""


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
            raise RefusedError(f"{host} is {address}, which is not public: add it to {ALLOW_VARIABLE} to allow it")


def _unmapped(address: Address) -> Address:
    """IPv4 inside of IPv6 is judged as IPv4."""
    if isinstance(address, ipaddress.IPv6Address):
        return address.ipv4_mapped or address.sixtofour or address
    return address


def _never(address: Address) -> bool:
    return (
        address.is_link_local
        or address.is_multicast
        or address.is_unspecified
        or any(address.version == one.version and address in one for one in _NEVER)
    )


class GuardedTransport(httpx.AsyncBaseTransport):
    """Resolves, judges, and hands on with the address in place of the name; TLS still asks for the name."""

    def __init__(self, guard: AddressGuard, verify: bool) -> None:
        self._guard = guard
        self._inner = httpx.AsyncHTTPTransport(verify=verify)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """See httpx.AsyncBaseTransport."""
        host = request.url.host
        if request.url.scheme not in ("http", "https"):
            raise RefusedError(f"{request.url.scheme}: only http and https are called")
        addresses = await _resolve(host, request.url.port or (443 if request.url.scheme == "https" else 80))
        for address in addresses:
            self._guard.check(host, address)
        request.extensions = {**request.extensions, "sni_hostname": host}
        request.url = request.url.copy_with(host=str(addresses[0]))
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _resolve(host: str, port: int) -> list[Address]:
    try:
        return [ipaddress.ip_address(host.strip("[]"))]
    except ValueError:
        pass
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpx.ConnectError(f"cannot resolve {host}: {error}") from error
    return [ipaddress.ip_address(str(one[4][0]).partition("%")[0]) for one in found]
