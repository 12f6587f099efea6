"""The guard before the http tool: what may be called, and that it is what is called."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from typing import Any

import httpx
import pytest

from noetl_activities.errors import ConfigError, RefusedError
from noetl_activities.http.tool import TOOL
from noetl_activities.network.address_guard import AddressGuard
from noetl_activities.network.address_ranges import PLATFORM, SPECIAL_IPV4, SPECIAL_IPV6, Range, forbidden_range
from noetl_activities.network.guarded_transport import GuardedTransport
from noetl_activities.network.stack_ports import StackPorts

from .conftest import Context, request


@pytest.mark.parametrize(
    ("address", "allow", "allowed"),
    [
        ("93.184.216.34", "", True),
        ("2606:2800:220:1::1", "", True),
        ("127.0.0.1", "", False),
        ("127.0.0.1", "127.0.0.0/8", True),
        ("10.1.2.3", "", False),
        ("10.1.2.3", "10.0.0.0/8", True),
        ("192.168.1.1", "127.0.0.0/8", False),
        ("::1", "", False),
        ("::1", "::1", True),
        ("::ffff:127.0.0.1", "", False),
        ("::ffff:127.0.0.1", "127.0.0.0/8", True),
        ("169.254.169.254", "169.254.0.0/16", False),
        ("::ffff:169.254.169.254", "169.254.0.0/16", False),
        ("fe80::1", "fe80::/10", False),
        ("::1", "::/0", True),
        ("::", "::/0", False),
        ("::127.0.0.1", "", False),
        ("::169.254.169.254", "::/0", False),
        ("2002:a9fe:a9fe::", "::/0", False),
        ("64:ff9b::169.254.169.254", "::/0", False),
        ("64:ff9b:1::10.1.2.3", "", False),
        ("64:ff9b::93.184.216.34", "", True),
        ("100.64.0.1", "", False),
        ("255.255.255.255", "", False),
        ("fd00:ec2::254", "fd00::/8", False),
        ("0.0.0.0", "0.0.0.0/0", False),
        ("224.0.0.1", "0.0.0.0/0", False),
        ("10.9.9.9", "internal.test", True),
        ("169.254.169.254", "internal.test", False),
        # what the registries call special, and Python's is_global does not
        ("192.88.99.1", "", False),
        ("192.0.0.1", "", False),
        ("192.0.0.9", "", False),
        ("fec0::1", "", False),
        ("3fff::1", "", False),
        ("3fff:fff:ffff::1", "", False),
        ("3fff:1000::1", "", True),
        ("5f00::1", "", False),
        ("100:0:0:1::1", "", False),
        ("2001:1::1", "", False),
        ("2001:200::1", "", True),
        ("4000::1", "", False),
        ("1fff::1", "", False),
        ("3fff::1", "3fff::/20", True),
        # IPv4 carried in IPv6
        ("::ffff:0:127.0.0.1", "", False),
        ("::ffff:0:127.0.0.1", "127.0.0.0/8", False),
        ("::ffff:0:169.254.169.254", "::/0", False),
        ("::ffff:168.63.129.16", "", False),
        ("64:ff9b::127.0.0.1", "", False),
        ("64:ff9b::168.63.129.16", "::/0", False),
        ("64:ff9b:1::169.254.169.254", "::/0", False),
        ("2002:7f00:1::", "127.0.0.0/8", False),
        ("2002:5db8:d822::1", "", False),
        ("2001:0:a9fe:a9fe::", "::/0", False),
        ("2001:0:5db8:d822:0:0:5601:5601", "::/0", False),
        ("2001:0:5db8:d822:0:0:a247:27dd", "", False),
        # cloud platforms: only by the address itself
        ("168.63.129.16", "", False),
        ("168.63.129.16", "0.0.0.0/0", False),
        ("168.63.129.16", "internal.test", False),
        ("168.63.129.16", "168.63.129.16", True),
        ("168.63.129.17", "", True),
        ("100.100.100.200", "100.64.0.0/10", False),
        ("192.0.0.192", "192.0.0.0/24", False),
        ("169.254.169.254", "127.0.0.0/8,localhost,::1", False),
        ("169.254.169.254", "169.254.169.254", True),
        ("169.254.169.254", "169.254.169.254/31", False),
        ("::ffff:169.254.169.254", "169.254.169.254/32", True),
        ("fd00:ec2::254", "fd00:ec2::254", True),
        ("fd00:ec2::23", "fd00::/8", False),
        ("fd20:ce::254", "fd00::/8", False),
        ("fd20:ce::253", "fd00::/8", True),
        ("fe80::1%eth0", "fe80::/10", False),
        ("::1%lo", "::1", True),
        # no server's
        ("0.0.0.0", "0.0.0.0", False),
        ("0.1.2.3", "0.0.0.0/0", False),
        ("255.255.255.255", "255.255.255.255", False),
        ("ff02::1", "::/0", False),
        ("::ffff:0.0.0.0", "::/0, 0.0.0.0/0", False),
    ],
)
def test_which_addresses_are_allowed(address: str, allow: str, allowed: bool) -> None:
    guard = AddressGuard.from_text(allow)
    if allowed:
        guard.check("internal.test", ipaddress.ip_address(address))
    else:
        with pytest.raises(RefusedError):
            guard.check("internal.test", ipaddress.ip_address(address))


def test_the_ranges_have_a_source() -> None:
    for range_ in (*SPECIAL_IPV4, *SPECIAL_IPV6):
        assert re.fullmatch(r"RFC \d+", range_.source)
    networks = {str(range_.network) for range_ in (*SPECIAL_IPV4, *SPECIAL_IPV6)}
    special = {"fec0::/10", "3fff::/20", "5f00::/16", "192.88.99.0/24", "192.0.0.0/24", "100:0:0:1::/64"}
    assert special | {"::ffff:0:0:0/96"} <= networks


@pytest.mark.parametrize(
    "special_range", [*SPECIAL_IPV4, *SPECIAL_IPV6, *PLATFORM], ids=lambda special: str(special.network)
)
def test_the_first_and_the_last_address_of_each_special_range_are_refused(special_range: Range) -> None:
    """The control: a guard that allows the networks lets all of them through that a server may have."""
    for address in (special_range.network.network_address, special_range.network.broadcast_address):
        with pytest.raises(RefusedError):
            AddressGuard().check("internal.test", address)
        if forbidden_range(address) is None:
            AddressGuard(networks=(ipaddress.ip_network(address),)).check("internal.test", address)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::ffff:7f00:1]"])
async def test_loopback_is_refused_by_default(web: str, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOETL_HTTP_ALLOW", raising=False)
    port = httpx.URL(web).port
    with pytest.raises(RefusedError, match="NOETL_HTTP_ALLOW"):
        await TOOL.run(request("http", url=f"http://{host}:{port}/echo"), Context())


async def test_the_call_connects_to_the_checked_address(web: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that answers differently the second time gains nothing: it is asked once."""
    port = httpx.URL(web).port
    answers = [[(2, 1, 6, "", ("127.0.0.1", port))], [(2, 1, 6, "", ("10.0.0.1", port))]]
    requests: list[str] = []

    async def getaddrinfo(host: str, *_rest: Any, **_named: Any) -> Any:
        requests.append(host)
        return answers[len(requests) - 1]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    transport = GuardedTransport(AddressGuard.from_text("127.0.0.1"), StackPorts(), verify=True)
    async with httpx.AsyncClient(transport=transport) as client:
        response = await client.get(f"http://rebinding.test:{port}/echo")
    assert response.json()["headers"]["host"] == f"rebinding.test:{port}"
    assert requests == ["rebinding.test"]


async def test_the_next_address_is_tried_when_no_server_listens(web: str, monkeypatch: pytest.MonkeyPatch) -> None:
    port = httpx.URL(web).port

    async def getaddrinfo(*_given: Any, **_named: Any) -> Any:
        return [(2, 1, 6, "", ("127.0.0.9", port)), (2, 1, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    transport = GuardedTransport(AddressGuard.from_text("127.0.0.0/8"), StackPorts(), verify=True)
    async with httpx.AsyncClient(transport=transport) as client:
        assert (await client.post(f"http://two.test:{port}/echo", json=[1])).json()["body"] == "[1]"


async def test_one_refused_address_refuses_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    async def getaddrinfo(*_given: Any, **_named: Any) -> Any:
        return [(2, 1, 6, "", ("93.184.216.34", 80)), (2, 1, 6, "", ("169.254.169.254", 80))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    with pytest.raises(RefusedError, match="metadata"):
        await TOOL.run(request("http", url="http://mixed.test/"), Context())


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("notaurl/x.json", '"notaurl/x.json" is not an http(s) address: begin it with http:// or https://'),
        ("ftp://example.com/x?token=hush", '"ftp://example.com/x" is not an http(s) address'),
        ("http://127.0.0.1:1/x", "GET http://127.0.0.1:1/x: connection refused: nothing listens there"),
        ("http://nowhere.invalid/x", "GET http://nowhere.invalid/x: unknown host nowhere.invalid"),
        (
            "http://10.1.2.3/",
            "10.1.2.3 is not a public address: to allow it, add it to NOETL_HTTP_ALLOW of the worker and restart",
        ),
    ],
)
async def test_unreachable_servers_are_reported(url: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_HTTP_ALLOW", "127.0.0.1")
    loop = asyncio.get_running_loop()

    async def unknown(*_args: object, **_kinds: object) -> object:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(loop, "getaddrinfo", unknown)
    try:
        outcome = await TOOL.run(request("http", url=url), Context())
        message = outcome.error.message if outcome.error else ""
    except (ConfigError, RefusedError) as error:
        message = str(error)
    assert message.startswith(says)
    assert "hush" not in message
