"""Which addresses the http tool may call (server-side request forgery).

| address | allowed |
|---|---|
| public | always |
| loopback, private, others that are not public | if NOETL_HTTP_ALLOW lists the host, or a network with the address |
| of a cloud platform: metadata, link-local | if NOETL_HTTP_ALLOW lists the address itself |
| unspecified, multicast, broadcast | never |

IPv4 addresses embedded in IPv6 are checked too. address_ranges.py lists the ranges; guarded_transport.py calls the
guard.
"""

from __future__ import annotations

import ipaddress
import os

import msgspec

from noetl_activities.errors import RefusedError
from noetl_activities.network.address_ranges import (
    Address,
    Network,
    canonical_address,
    forbidden_range,
    is_public,
    platform_range,
)
from noetl_activities.variables import HTTP_ALLOW_VARIABLE

__all__ = ["AddressGuard"]


class AddressGuard(msgspec.Struct, frozen=True):
    """Decides which addresses calls may connect to: public ones, and those of ``hosts`` and ``networks``."""

    hosts: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = ()

    @classmethod
    def from_text(cls, text: str) -> AddressGuard:
        """Read ``localhost, 10.0.0.0/8, db.internal``. Never raises: text that is not a network is a host name."""
        hosts: set[str] = set()
        networks: list[Network] = []
        for entry in filter(None, (part.strip() for part in text.split(","))):
            try:
                networks.append(ipaddress.ip_network(entry, strict=False))
            except ValueError:
                hosts.add(entry.lower())
        return cls(frozenset(hosts), tuple(networks))

    @classmethod
    def from_environment(cls) -> AddressGuard:
        """Return the guard that NOETL_HTTP_ALLOW describes."""
        return cls.from_text(os.environ.get(HTTP_ALLOW_VARIABLE, ""))

    def check(self, host: str, address: Address) -> None:
        """Check that a call to ``host`` may connect to its ``address``. Raises RefusedError."""
        address = canonical_address(address)
        forbidden = forbidden_range(address)
        if forbidden is not None:
            raise RefusedError(f"{_address_label(host, address)} is never allowed ({forbidden.use})")
        platform_address, platform = platform_range(address) or (address, None)
        if platform is not None and not self._is_listed_itself(platform_address):
            raise RefusedError(
                f"{_address_label(host, address)} is allowed only if {HTTP_ALLOW_VARIABLE} of the worker lists "
                f"{platform_address} itself ({platform.use}; cloud metadata services use such addresses)"
            )
        if is_public(address) or host.lower() in self.hosts or self._is_in_allowed_network(address):
            return
        raise RefusedError(
            f"{_address_label(host, address)} is not a public address: to allow it, add it to {HTTP_ALLOW_VARIABLE} "
            "of the worker and restart the worker"
        )

    def _is_in_allowed_network(self, address: Address) -> bool:
        return any(address.version == network.version and address in network for network in self.networks)

    def _is_listed_itself(self, address: Address) -> bool:
        """Whether the address itself is allowed, not only a network that it is in."""
        return any(network.num_addresses == 1 and network.network_address == address for network in self.networks)


def _address_label(host: str, address: Address) -> str:
    return str(address) if host.strip("[]") == str(address) else f"{host} ({address})"
