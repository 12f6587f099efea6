"""A Temporal and a Postgres that were never prepared: told, then prepared, then used."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from noetl_activities.testing import FakeTool
from noetl_compiler import compile_or_raise
from noetl_temporal.cli.logged_run import logged_events
from noetl_temporal.client import NoetlClient
from noetl_temporal.deployment import DeploymentError
from noetl_temporal.search_attributes import SEARCH_ATTRIBUTES
from noetl_temporal.setup import register_search_attributes, registration_commands, set_up_postgres
from noetl_temporal.stack.addresses import Addresses

from .conftest import HEAD

BINARY = str(Path(sys.executable).parent / "temporal")
GRAPH = compile_or_raise(f"{HEAD}workflow:\n  - step: start\n    tool: {{kind: noop}}\n", "shell.yaml")


@pytest.fixture
async def bare() -> AsyncIterator[Client]:
    """A server that knows nothing of us."""
    starting = WorkflowEnvironment.start_local(dev_server_existing_path=BINARY)  # pyright: ignore[reportUnknownMemberType]
    async with await starting as server:
        yield server.client


async def connect(bare: Client) -> NoetlClient:
    address = bare.service_client.config.target_host
    return await NoetlClient.connect(address, tools={"noop": FakeTool("noop", lambda _request, _context: 1)})


async def test_search_attributes_are_asked_for_and_registered_once(bare: Client) -> None:
    client = await connect(bare)
    with pytest.raises(DeploymentError, match="noetl setup"):
        await client.submit(GRAPH)
    with pytest.raises(DeploymentError, match="noetl setup"):
        await client.find(7)
    assert sorted(await register_search_attributes(bare)) == sorted(SEARCH_ATTRIBUTES)
    handle = await client.submit(GRAPH)
    await handle.terminate()
    assert await register_search_attributes(bare) == []


async def test_a_missing_namespace_is_reported(bare: Client) -> None:
    with pytest.raises(DeploymentError, match="no namespace 'nope'"):
        await NoetlClient.connect(bare.service_client.config.target_host, namespace="nope")


async def test_tables_are_asked_for_and_made_once(servers: Addresses) -> None:
    connection = await asyncpg.connect(servers.postgres)
    await connection.execute("CREATE DATABASE never_prepared")
    await connection.close()
    dsn = servers.postgres.rpartition("/")[0] + "/never_prepared"
    with pytest.raises(DeploymentError, match="noetl setup"):
        await anext(logged_events(dsn, None))
    assert await set_up_postgres(dsn)
    assert await set_up_postgres(dsn) == []
    assert [page async for page in logged_events(dsn, None)] == []


def test_without_the_right_to_register_the_commands_are_printed() -> None:
    for command in registration_commands("mine"):
        assert "--namespace mine" in command
        assert all(name in command for name in SEARCH_ATTRIBUTES)
