"""Resolves host names."""

from __future__ import annotations

import asyncio
import ipaddress
import socket

import httpx

from noetl_activities.network.address_ranges import Address

__all__ = ["UnknownHostError", "resolve_host"]

_UNKNOWN_HOST = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))


class UnknownHostError(httpx.ConnectError):
    """A host name cannot be resolved."""


async def resolve_host(host: str, port: int) -> list[Address]:
    """Return the addresses of a host, at least one, in the order of getaddrinfo. Raises UnknownHostError."""
    try:
        return [ipaddress.ip_address(host.strip("[]"))]
    except ValueError:
        pass
    try:
        entries = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        if isinstance(error, socket.gaierror) and error.errno in _UNKNOWN_HOST:
            raise UnknownHostError(f"unknown host {host}") from error
        raise UnknownHostError(f"the name {host} cannot be resolved: {error}") from error
    return [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in entries]
