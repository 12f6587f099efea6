"""Blocks connections of playbooks to the ports of the stack, even at allowed addresses.

Temporal and its web UI accept commands from this machine without a login, so a playbook could start or end runs. These
are refused:

* the ports in NOETL_STACK_PORTS (numbers separated by commas) at all addresses that are not public, because this
  machine has other addresses than loopback;
* the ports in TEMPORAL_ADDRESS and NOETL_POSTGRES at these addresses, and at the addresses of the hosts in them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from noetl_activities.errors import RefusedError
from noetl_activities.network.address_ranges import Address, canonical_address, is_public
from noetl_activities.network.name_lookup import resolve_host
from noetl_activities.postgres.dsn import DsnError, dsn_servers
from noetl_activities.variables import DSN_VARIABLE, STACK_PORTS_VARIABLE, TEMPORAL_ADDRESS_VARIABLE

__all__ = ["StackPorts"]

_TEMPORAL_PORT = 7233
"""The port of Temporal if TEMPORAL_ADDRESS has none."""

_HOST_AND_PORT = re.compile(r"(?P<host>\[[^\]]*\]|[^:]*)(?::(?P<port>\d{1,5}))?")


class Service(msgspec.Struct, frozen=True):
    """The address of a server of the stack, and the environment ``variable`` that contains it."""

    variable: str
    host: str
    port: int


class StackPorts(msgspec.Struct, frozen=True):
    """The blocked ``ports`` of this machine, and the blocked ``services`` on any machine."""

    ports: frozenset[int] = frozenset()
    services: tuple[Service, ...] = ()

    @classmethod
    def from_environment(cls) -> StackPorts:
        """Read the environment. Raises RefusedError if NOETL_STACK_PORTS is not a list of numbers."""
        port_texts = [port.strip() for port in os.environ.get(STACK_PORTS_VARIABLE, "").split(",") if port.strip()]
        if not all(port.isdecimal() for port in port_texts):
            raise RefusedError(
                f"{STACK_PORTS_VARIABLE} of the worker must be a list of port numbers, such as 7233, 8233"
            )
        temporal = os.environ.get(TEMPORAL_ADDRESS_VARIABLE, "").strip()
        services = [
            *([_service(TEMPORAL_ADDRESS_VARIABLE, temporal, _TEMPORAL_PORT)] if temporal else []),
            *_postgres_services(),
        ]
        return cls(frozenset(map(int, port_texts)), tuple(services))

    async def check(self, host: str, address: Address, port: int) -> None:
        """Check that a call to ``host`` may connect to its ``address`` and ``port``. Raises RefusedError;
        httpx.ConnectError if the host of a service with this port cannot be resolved.
        """
        address = canonical_address(address)
        if port in self.ports and not is_public(address):
            raise _refusal(host, port, STACK_PORTS_VARIABLE)
        for service in self.services:
            if port == service.port and (not is_public(address) or await _is_service_at(service, host, address)):
                raise _refusal(host, port, service.variable)


async def _is_service_at(service: Service, host: str, address: Address) -> bool:
    """Whether the service is at this host or address."""
    if service.host.lower() == host.lower():
        return True
    return address in {canonical_address(host) for host in await resolve_host(service.host, service.port)}


def _refusal(host: str, port: int, variable: str) -> RefusedError:
    return RefusedError(f"port {port} of {host} belongs to the stack ({variable}): playbooks cannot connect to it")


def _postgres_services() -> Iterator[Service]:
    """Yield the servers in NOETL_POSTGRES; none if it is not a valid DSN, which is reported when connecting."""
    with suppress(DsnError):
        for host, port in dsn_servers(os.environ.get(DSN_VARIABLE, "")):
            yield Service(DSN_VARIABLE, host, port)


def _service(variable: str, text: str, port: int) -> Service:
    """Return the service at ``host``, ``host:port`` or ``[::1]:port``."""
    match = _HOST_AND_PORT.fullmatch(text)
    if match is None:
        return Service(variable, text, port)
    return Service(variable, match["host"], int(match["port"] or port))
