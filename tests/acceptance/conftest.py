"""The command as a person calls it, a stack that stays up for the whole session, and the web API it works on."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import httpx
import pytest

from noetl_temporal.stack.home import Home
from noetl_temporal.stack.owner import owned_stack
from noetl_temporal.stack.process import free_port
from tests.acceptance.site import ROOT, Api, Site
from tests.audit import audit_everything


@pytest.fixture
def bare(tmp_path: Path) -> Site:
    """A folder with nothing in it."""
    return Site(tmp_path)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A folder whose stack is up. At its end every log that the tests left there must hold."""
    site = Site(tmp_path_factory.mktemp("site"))
    up = site.noetl("dev", "up")
    assert up.returncode == 0, up.stderr
    yield site
    assert asyncio.run(audit_everything(site.addresses().postgres)) == {}
    down = site.noetl("dev", "down")
    assert down.returncode == 0, down.stderr


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Servers that the commands find as a cluster: no worker and no mirror run there."""
    home = Home(tmp_path_factory.mktemp("cluster"))
    with owned_stack(home, "run") as (_, addresses), pytest.MonkeyPatch.context() as patch:
        for name, value in addresses.environment().items():
            patch.setenv(name, value)
        patch.setenv("NOETL_TOOL_QUEUES", "none")
        yield


@pytest.fixture
async def log(site: Site) -> AsyncIterator[asyncpg.Connection]:
    """The event log's database of the stack that is up."""
    connection = await asyncpg.connect(site.addresses().postgres)
    yield connection
    await connection.close()


@pytest.fixture
async def playbooks(site: Site) -> AsyncIterator[asyncpg.Connection]:
    """The playbooks' own database of the stack that is up."""
    connection = await asyncpg.connect(site.addresses().playbooks)
    yield connection
    await connection.close()


@pytest.fixture(scope="session")
def api_server() -> Iterator[Api]:
    port = free_port()
    api = Api(f"http://127.0.0.1:{port}")
    with subprocess.Popen([sys.executable, str(ROOT / "dev/testserver.py"), "--port", str(port)]) as server:
        with httpx.Client(transport=httpx.HTTPTransport(retries=10)) as client:
            assert client.get(f"{api.url}/health").json() == {"status": "ok"}
        yield api
        server.terminate()


@pytest.fixture
def api(api_server: Api) -> Api:
    """The web API, its counters at zero and its flaky pages flaky again."""
    httpx.post(f"{api_server.url}/api/v1/flaky/reset")
    httpx.post(f"{api_server.url}/__calls/reset")
    return api_server
