"""Address ranges: which addresses are public, and which belong to a cloud platform.

The special ranges are those of the special-purpose registries of IANA (iana-ipv4-special-registry,
iana-ipv6-special-registry, as of RFC 9780 of 2025) and of the multicast registries. They are listed here, because
Python's ``ipaddress.is_global`` only knows those registered before its release, and allows some of them. Globally
reachable ranges inside a special one (anycast services in 192.0.0.0/24 and 2001::/23) are not public here, as they have
no web servers.

IPv6 is public by allow-list: only 2000::/3 is allocated for global unicast (RFC 4291); the rest is special or reserved.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

__all__ = [
    "Address",
    "Network",
    "Range",
    "canonical_address",
    "containing_range",
    "forbidden_range",
    "is_public",
    "platform_range",
]

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


class Range(NamedTuple):
    """A range of addresses, its use, and the document that defines it."""

    network: Network
    use: str
    source: str


def _ranges(*rows: tuple[str, str, str]) -> tuple[Range, ...]:
    return tuple(Range(ipaddress.ip_network(network), use, source) for network, use, source in rows)


SPECIAL_IPV4 = _ranges(
    ("0.0.0.0/8", "this network", "RFC 791"),
    ("10.0.0.0/8", "private use", "RFC 1918"),
    ("100.64.0.0/10", "shared address space of carriers", "RFC 6598"),
    ("127.0.0.0/8", "loopback", "RFC 1122"),
    ("169.254.0.0/16", "link-local", "RFC 3927"),
    ("172.16.0.0/12", "private use", "RFC 1918"),
    ("192.0.0.0/24", "protocol assignments", "RFC 6890"),
    ("192.0.2.0/24", "documentation", "RFC 5737"),
    ("192.88.99.0/24", "relays of 6to4, deprecated", "RFC 7526"),
    ("192.168.0.0/16", "private use", "RFC 1918"),
    ("198.18.0.0/15", "benchmarking", "RFC 2544"),
    ("198.51.100.0/24", "documentation", "RFC 5737"),
    ("203.0.113.0/24", "documentation", "RFC 5737"),
    ("224.0.0.0/4", "multicast", "RFC 5771"),
    ("240.0.0.0/4", "reserved", "RFC 1112"),
)

UNICAST_IPV6 = ipaddress.ip_network("2000::/3")

SPECIAL_IPV6 = _ranges(
    ("::/96", "unspecified, loopback, v4-compatible", "RFC 4291"),
    ("::ffff:0:0:0/96", "v4-translated", "RFC 2765"),
    ("64:ff9b:1::/48", "NAT64 of a site", "RFC 8215"),
    ("100::/64", "discard", "RFC 6666"),
    ("100:0:0:1::/64", "dummy prefix", "RFC 9780"),
    ("2001::/23", "protocol assignments, Teredo, ORCHID", "RFC 2928"),
    ("2001:db8::/32", "documentation", "RFC 3849"),
    ("2002::/16", "6to4", "RFC 3056"),
    ("3fff::/20", "documentation", "RFC 9637"),
    ("5f00::/16", "identifiers of segment routing", "RFC 9602"),
    ("fc00::/7", "private use", "RFC 4193"),
    ("fe80::/10", "link-local", "RFC 4291"),
    ("fec0::/10", "site-local, deprecated", "RFC 3879"),
    ("ff00::/8", "multicast", "RFC 4291"),
)
"""Those outside UNICAST_IPV6 are not public anyway; they are listed for error messages."""

FORBIDDEN = _ranges(
    ("0.0.0.0/8", "this network", "RFC 791"),
    ("224.0.0.0/4", "multicast", "RFC 5771"),
    ("255.255.255.255/32", "broadcast", "RFC 919"),
    ("::/128", "unspecified", "RFC 4291"),
    ("ff00::/8", "multicast", "RFC 4291"),
)
"""No web server has such an address. The system sends requests for an unspecified address to this machine."""

PLATFORM = _ranges(
    ("169.254.0.0/16", "link-local, where clouds keep their metadata and credentials", "RFC 3927"),
    ("fe80::/10", "link-local", "RFC 4291"),
    ("fec0::/10", "site-local, deprecated", "RFC 3879"),
    ("fd00:ec2::/32", "metadata, time and pod identity of AWS", "docs.aws.amazon.com: instance metadata service"),
    ("fd20:ce::254/128", "metadata of Google Cloud", "cloud.google.com: metadata server, IPv6"),
    ("fd00:42::42/128", "metadata of Scaleway", "scaleway.com: instance metadata"),
    ("100.100.100.200/32", "metadata of Alibaba Cloud", "alibabacloud.com: instance metadata"),
    ("168.63.129.16/32", "platform address of Azure", "learn.microsoft.com: what is IP address 168.63.129.16"),
    ("192.0.0.192/32", "metadata of Oracle Cloud Classic", "docs.oracle.com: instance metadata"),
)
"""Services at these addresses return credentials of the machine, or control it."""

_IPV4_FORMS = tuple(map(ipaddress.IPv6Network, ("::ffff:0:0/96", "64:ff9b::/96")))
"""IPv6 forms of an IPv4 address, which is in the last 32 bits: v4-mapped (RFC 4291) and NAT64 (RFC 6052)."""

_EMBEDDING_RANGES = tuple(
    (ipaddress.IPv6Network(network), shift)
    for network, shift in (
        ("::/96", 0),  # v4-compatible, deprecated (RFC 4291)
        ("::ffff:0:0:0/96", 0),  # v4-translated (RFC 2765)
        ("64:ff9b:1::/48", 0),  # NAT64 of a site (RFC 8215)
        ("2001::/32", 64),  # Teredo's server (RFC 4380)
        ("2002::/16", 80),  # 6to4 (RFC 3056)
    )
)
"""IPv6 ranges that embed the IPv4 address of a translator or tunnel, and the number of bits after it."""


def canonical_address(address: Address) -> Address:
    """Return the canonical address: IPv4 for the IPv6 forms of it, without a zone."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if any(address in network for network in _IPV4_FORMS):
        return _ipv4(int(address))
    return ipaddress.IPv6Address(int(address))


def is_public(address: Address) -> bool:
    """Whether a canonical address is public."""
    if isinstance(address, ipaddress.IPv4Address):
        return not containing_range(address, SPECIAL_IPV4)
    return address in UNICAST_IPV6 and not containing_range(address, SPECIAL_IPV6)


def forbidden_range(address: Address) -> Range | None:
    """Return the range of a canonical address that calls must never use; None for other addresses."""
    return containing_range(address, FORBIDDEN)


def platform_range(address: Address) -> tuple[Address, Range] | None:
    """Return (address, range) if a canonical address belongs to a cloud platform, or embeds an address that does."""
    for candidate in (address, *_embedded_addresses(address)):
        range_ = containing_range(candidate, PLATFORM)
        if range_ is not None:
            return candidate, range_
    return None


def containing_range(address: Address, ranges: Iterable[Range]) -> Range | None:
    """Return the first range that contains the address; None if there is none."""
    return next(
        (range_ for range_ in ranges if range_.network.version == address.version and address in range_.network), None
    )


def _embedded_addresses(address: Address) -> list[ipaddress.IPv4Address]:
    if isinstance(address, ipaddress.IPv4Address):
        return []
    number = int(address)
    ipv4_addresses = [_ipv4(number >> shift) for network, shift in _EMBEDDING_RANGES if address in network]
    return ipv4_addresses if address.teredo is None else [*ipv4_addresses, address.teredo[1]]


def _ipv4(number: int) -> ipaddress.IPv4Address:
    return ipaddress.IPv4Address(number & 0xFFFFFFFF)
