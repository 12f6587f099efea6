"""No playbook reaches the ports of the stack itself, whatever is allowed and by whatever name."""

from __future__ import annotations

import asyncio
import ipaddress
from typing import Any

import httpx
import pytest

from noetl_activities.errors import RefusedError
from noetl_activities.http.tool import TOOL
from noetl_activities.network.stack_ports import Service, StackPorts
from noetl_temporal.stack.addresses import Addresses

from .conftest import Context, request

NAMES = ["127.0.0.1", "localhost", "LOCALHOST", "2130706433", "0x7f.1", "[::ffff:7f00:1]", "[::ffff:127.0.0.1]"]


@pytest.fixture(autouse=True)
def allow_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """All is allowed, and the machine's own stack is not looked at."""
    monkeypatch.setenv("NOETL_HTTP_ALLOW", "0.0.0.0/0,::/0,localhost")
    for name in ("NOETL_STACK_PORTS", "TEMPORAL_ADDRESS", "NOETL_POSTGRES"):
        monkeypatch.delenv(name, raising=False)


async def call(url: str) -> int:
    outcome = await TOOL.run(request("http", url=url, follow_redirects=True), Context())
    return int(outcome.result["status_code"])


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("NOETL_STACK_PORTS", "1, {port},"),
        ("TEMPORAL_ADDRESS", "127.0.0.1:{port}"),
        ("TEMPORAL_ADDRESS", "localhost:{port}"),
        ("TEMPORAL_ADDRESS", "[::1]:{port}"),
        ("NOETL_POSTGRES", "postgresql://noetl:hush@127.0.0.1:{port}/noetl"),
        ("NOETL_POSTGRES", "postgresql://noetl:hush@db.test:1,localhost:{port}/noetl"),
        ("NOETL_POSTGRES", "postgresql:///noetl?host=localhost&port={port}&password=hush"),
    ],
)
async def test_a_port_of_the_stack_is_refused(
    web: str, variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = httpx.URL(web).port
    away = f"{web}/away?to=".replace("127.0.0.1", "localhost")
    for host in NAMES:
        assert await call(f"http://{host}:{port}/echo") == 200, "the control"
    monkeypatch.setenv(variable, value.format(port=port))
    for url in [*(f"http://{host}:{port}/echo" for host in NAMES), f"{away}{web}/echo"]:
        with pytest.raises(RefusedError, match=f"port {port} of .* belongs to the stack") as refusal:
            await call(url)
        assert "hush" not in str(refusal.value)


async def test_a_task_cannot_connect_to_the_embedded_stack(servers: Addresses, monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporal's own port, with all variables that the stack sets for its worker, which allows loopback."""
    monkeypatch.delenv("NOETL_HTTP_ALLOW")
    url = f"http://localhost:{servers.temporal.rpartition(':')[2]}/"
    for name, value in servers.environment().items():
        monkeypatch.setenv(name, value)
    with pytest.raises(RefusedError, match="belongs to the stack"):
        await call(url)
    for name in ("NOETL_STACK_PORTS", "TEMPORAL_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    outcome = await TOOL.run(request("http", url=url), Context())
    assert outcome.error is not None
    assert outcome.error.message.startswith("GET"), "the control: Temporal was asked, and speaks another protocol"


async def test_a_redirect_to_the_stack_is_refused(web: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_STACK_PORTS", "7233")
    with pytest.raises(RefusedError, match="port 7233 of localhost belongs to the stack"):
        await call(f"{web}/away?to=http://localhost:7233/api/v1/namespaces/default/workflows/x/terminate")


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.9.9", "10.1.2.3", "192.168.0.1", "::1", "fd00::1", "fe80::1"])
async def test_a_port_of_this_machine_is_refused_by_all_its_addresses(address: str) -> None:
    with pytest.raises(RefusedError):
        await StackPorts(frozenset({7233})).check("any.test", ipaddress.ip_address(address), 7233)
    await StackPorts(frozenset({7233})).check("any.test", ipaddress.ip_address(address), 7234)


async def test_the_same_port_on_a_public_host_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def getaddrinfo(host: str, *_rest: Any, **_named: Any) -> Any:
        return [(2, 1, 6, "", ("93.184.216.34", 0))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    cluster = Service("TEMPORAL_ADDRESS", "temporal.test", 7233)
    ports = StackPorts(frozenset({7233, 8233}), (cluster,))
    elsewhere = ipaddress.ip_address("93.184.216.35")
    await ports.check("public.test", elsewhere, 7233)
    await ports.check("public.test", elsewhere, 8233)
    for host, address in (("Temporal.test", elsewhere), ("other.test", ipaddress.ip_address("93.184.216.34"))):
        with pytest.raises(RefusedError, match="TEMPORAL_ADDRESS"):
            await ports.check(host, address, 7233)


@pytest.mark.parametrize(
    ("dsn", "expected"),
    [
        ("", []),
        ("postgresql://u:p@h/db", [("h", 5432)]),
        ("postgresql://u:p@h:1,[::1]:2/db", [("h", 1), ("::1", 2)]),
        ("postgresql://u:p@%2Frun%2Fpg/db", []),
        ("postgresql://u:p@/db?host=/run/pg&port=6", []),
        ("postgresql://u:p@/db?host=a,b&port=6", [("a", 6), ("b", 6)]),
        ("postgresql://u:p@h/db?port=6", [("h", 6)]),
        ("postgresql://u:p@h:1/db?port=6&unknown=x", [("h", 1)]),
        ("postgresql://u:p@a,b:2/db?sslmode=require", [("a", 5432), ("b", 2)]),
        ("postgresql://u:p@[::1]/db", [("::1", 5432)]),
        ("postgresql://u:p@ss@h/db", []),
        ("postgresql://[", []),
    ],
)
def test_hosts_and_ports_of_a_dsn(dsn: str, expected: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_POSTGRES", dsn)
    assert [(service.host, service.port) for service in StackPorts.from_environment().services] == expected


def test_a_list_that_cannot_be_read_refuses_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_STACK_PORTS", "7233 8233")
    with pytest.raises(RefusedError, match="NOETL_STACK_PORTS"):
        StackPorts.from_environment()
