"""A worker of scripted runs, and an empty migrated database for each test."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import msgspec
import pytest
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from noetl_temporal.ids import new_execution_id
from noetl_temporal.mirror.store import Store, migrate, open_store
from noetl_temporal.payloads.codec import data_converter
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.workflows.trail import TrailInterceptor, record_trail
from tests.mirror import scripted

TEMPLATE = "mirror_template"

_STORING = ("ingest_time", "position")


class Log:
    """A database's event log, as a test looks at it."""

    def __init__(self, database: asyncpg.Connection) -> None:
        self.database = database

    async def rows(self, execution_id: int, table: str = "event") -> list[dict[str, Any]]:
        """All columns of an execution's rows, in order."""
        records = await self.database.fetch(
            f"SELECT * FROM noetl.{table} WHERE execution_id = $1 ORDER BY event_id", execution_id
        )
        return [{name: _value(name, value) for name, value in record.items()} for record in records]

    async def story(self, execution_id: int) -> list[tuple[str, str]]:
        """(event_type, status) of each row."""
        return [(row["event_type"], row["status"]) for row in await self.rows(execution_id)]

    async def everything(self) -> list[dict[str, Any]]:
        """All rows of all executions, but for when and in which order they were stored."""
        records = await self.database.fetch("SELECT * FROM noetl.event ORDER BY execution_id, event_id")
        return [{name: value for name, value in record.items() if name not in _STORING} for record in records]


def _value(name: str, value: Any) -> Any:
    return msgspec.json.decode(value) if name in ("context", "result", "meta", "data") and value else value


class Scripts:
    """Starts scripted runs."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def start(
        self, execution_id: int, *script: Any, client: Client | None = None, **options: Any
    ) -> WorkflowHandle[Any, Any]:
        return await (client or self.client).start_workflow(
            "noetl.playbook",
            scripted.playbook(execution_id, *script),
            id=f"tests/scripted/{execution_id}",
            task_queue=scripted.QUEUE,
            **options,
        )


@pytest.fixture(scope="session")
async def client(servers: Addresses) -> Client:
    return await Client.connect(servers.temporal, data_converter=data_converter())


@pytest.fixture(scope="session")
async def scripts(client: Client) -> AsyncIterator[Scripts]:
    async with scripted_worker(client):
        yield Scripts(client)


def scripted_worker(client: Client, queue: str = scripted.QUEUE) -> Worker:
    return Worker(
        client,
        task_queue=queue,
        workflows=[scripted.ScriptedPlaybook, scripted.ScriptedLoop],
        activities=[scripted.http, record_trail],
        workflow_runner=UnsandboxedWorkflowRunner(),
        interceptors=[TrailInterceptor()],
    )


@pytest.fixture
def execution_id() -> int:
    return new_execution_id()


@pytest.fixture(scope="session")
async def template(servers: Addresses) -> str:
    """A migrated database that others are copied from."""
    await migrate(await _create(servers, TEMPLATE))
    return TEMPLATE


@pytest.fixture
async def empty_dsn(servers: Addresses) -> str:
    """A database with nothing in it."""
    return await _create(servers, f"mirror_{secrets.token_hex(4)}")


@pytest.fixture
async def dsn(servers: Addresses, template: str) -> str:
    """A database of this test's own."""
    return await _create(servers, f"mirror_{secrets.token_hex(4)} TEMPLATE {template}")


@pytest.fixture
async def store(dsn: str) -> AsyncIterator[Store]:
    async with open_store(dsn) as store:
        yield store


@pytest.fixture
async def log(dsn: str) -> AsyncIterator[Log]:
    connection = await asyncpg.connect(dsn)
    yield Log(connection)
    await connection.close()


async def _create(servers: Addresses, prefix: str) -> str:
    connection = await asyncpg.connect(servers.postgres)
    await connection.execute(f"CREATE DATABASE {prefix}")
    await connection.close()
    return servers.postgres.rpartition("/")[0] + f"/{prefix.split()[0]}"
