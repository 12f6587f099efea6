"""Which addresses the http tool may call (server-side request forgery).

| address | called |
|---|---|
| public | yes |
| loopback, private, anything else that is not public | where NOETL_HTTP_ALLOW lists the host or a network it is in |
| of a cloud platform: metadata, link-local | where NOETL_HTTP_ALLOW lists this very address |
| unspecified, multicast, broadcast | never |

IPv4 addresses embedded in IPv6 are checked too. address_ranges.py lists the ranges; guarded_transport.py calls the
guard.
"""

from __future__ import annotations

import ipaddress
import os

import msgspec

from noetl_activities.address_ranges import Address, Network, is_public, never_called, plain, platform_range
from noetl_activities.errors import RefusedError
from noetl_activities.variables import HTTP_ALLOW_VARIABLE as ALLOW_VARIABLE

__all__ = ["ALLOW_VARIABLE", "AddressGuard"]


class AddressGuard(msgspec.Struct, frozen=True):
    """The addresses that calls may connect to.

    ``hosts`` and ``networks`` that are allowed although they are not public.
    """

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
        return cls.from_text(os.environ.get(ALLOW_VARIABLE, ""))

    def check(self, host: str, address: Address) -> None:
        """Raises RefusedError."""
        address = plain(address)
        never = never_called(address)
        if never is not None:
            raise RefusedError(f"{_named(host, address)} is never allowed ({never.use})")
        platform = platform_range(address)
        if platform is not None and not self._lists(platform[0]):
            raise RefusedError(
                f"{_named(host, address)} is allowed only if {ALLOW_VARIABLE} of the worker lists {platform[0]} "
                f"itself ({platform[1].use}; cloud metadata services use such addresses)"
            )
        if is_public(address) or host.lower() in self.hosts or self._has(address):
            return
        raise RefusedError(
            f"{_named(host, address)} is not a public address: to allow it, add it to {ALLOW_VARIABLE} of the worker "
            "and restart the worker"
        )

    def _has(self, address: Address) -> bool:
        return any(address.version == network.version and address in network for network in self.networks)

    def _lists(self, address: Address) -> bool:
        """Whether the address itself is allowed, not only a network that it is in."""
        return any(network.num_addresses == 1 and network.network_address == address for network in self.networks)


def _named(host: str, address: Address) -> str:
    return str(address) if host.strip("[]") == str(address) else f"{host} ({address})"
