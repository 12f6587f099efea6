"""Addresses that are not public, in all notations. Only the guard is called; nothing connects."""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import partial
from unittest.mock import patch

from dev.attack.attack import Attack, AttackClass
from noetl_activities.errors import RefusedError
from noetl_activities.network.address_guard import AddressGuard

__all__ = ["CLASS"]

NETWORKS_4 = (
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24"),
    *("192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
    *("224.0.0.0/4", "240.0.0.0/4", "255.255.255.255/32", "169.254.169.254/32", "100.100.100.200/32", "127.0.0.1/32"),
)
NETWORKS_6 = (
    *("::/128", "::1/128", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64", "2001:db8::/32", "3fff::/20", "5f00::/16"),
    *("fc00::/7", "fd00:ec2::254/128", "fe80::/10", "fec0::/10", "ff00::/8", "2001:2::/48"),
)
EMBEDDED_IPV4 = (
    "::ffff:{v4}",
    "::ffff:0:{v4}",
    "::{v4}",
    "64:ff9b::{v4}",
    "2002:{hex}::",
    "64:ff9b:1::{v4}",
)
"""IPv6 addresses with an IPv4 address in them: mapped, translated, compatible, NAT64, 6to4 and local-use NAT64."""


def _attacks(rng: random.Random, count: int) -> Iterator[Attack]:
    """Yield an IPv4 address, an IPv4 address in an IPv6 address, and an IPv6 address, in turn."""
    for index in range(count):
        v4 = _one_of(rng, NETWORKS_4)
        embedded = rng.choice(EMBEDDED_IPV4).format(v4=v4, hex=f"{int(v4) >> 16:x}:{int(v4) & 0xFFFF:x}")
        yield _attack((str(v4), embedded, str(_one_of(rng, NETWORKS_6)))[index % 3])


def _one_of(rng: random.Random, networks: tuple[str, ...]) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    network = ipaddress.ip_network(rng.choice(networks))
    return network[rng.randrange(network.num_addresses)]


def _attack(address: str) -> Attack:
    return Attack(address, partial(_gets_through, address))


class _Guard:
    """The guard of a worker whose environment allows nothing."""

    address_guard = AddressGuard()


def _gets_through(address: str) -> bool:
    try:
        _Guard.address_guard.check("attack.example", ipaddress.ip_address(address))
    except RefusedError:
        return False
    return True


def _disable_guard() -> AbstractContextManager[object]:
    """Allow all addresses."""
    return patch.object(_Guard, "address_guard", AddressGuard.from_text("0.0.0.0/0, ::/0"))


CLASS = AttackClass(
    "addresses", _attacks, (_attack("127.0.0.1"), _attack("::ffff:10.1.2.3"), _attack("fd00::1")), _disable_guard
)
