"""A place to prune: a namespace with a short retention, whose runs keep their large values where the mirror reads them.

Time passes by ``age``, which moves what is stored into the past. ``expire`` removes a run from Temporal as the
retention would, which takes the server half a minute; ``part`` has the log no longer mean a run that Temporal has.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import asyncpg
from google.protobuf.duration_pb2 import Duration
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest, RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError

from noetl_activities.credentials import CredentialSource
from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, ToolContext
from noetl_compiler import compile_or_raise
from noetl_temporal.client import NoetlClient, RunHandle
from noetl_temporal.mirror.prune import PruneResult, prune
from noetl_temporal.mirror.service import follow_execution
from noetl_temporal.setup import register_search_attributes
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.worker import serving

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: prune, path: tests/prune}\nworkflow:\n"
RETENTION = timedelta(hours=1)
LIMIT = timedelta(days=30)
LARGE = 100_000


async def make_namespace(servers: Addresses, name: str) -> None:
    """With our search attributes; returns when it can be used."""
    client = await Client.connect(servers.temporal)
    retention = Duration()
    retention.FromTimedelta(RETENTION)
    request = RegisterNamespaceRequest(namespace=name, workflow_execution_retention_period=retention)
    await client.workflow_service.register_namespace(request)
    inside = Client(client.service_client, namespace=name)
    await until(lambda: _can_be_used(inside))
    await register_search_attributes(inside)


async def _can_be_used(client: Client) -> bool:
    try:
        await client.count_workflows("")
    except RPCError:
        return False
    return True


async def until(condition: Callable[[], Awaitable[bool]], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.05)


class Place:
    """A database and a client whose tool ``noop`` answers as ``answer`` says."""

    def __init__(self, client: NoetlClient, dsn: str, database: asyncpg.Connection) -> None:
        self.client, self.dsn, self.database = client, dsn, database

    async def start(self, workflow: str, **payload: Any) -> RunHandle:
        return await self.client.submit(compile_or_raise(HEAD + workflow, "prune.yaml"), payload, content="text")

    async def run(self, workflow: str, **payload: Any) -> RunHandle:
        """Run to the end, and have it mirrored."""
        handle = await self.start(workflow, **payload)
        await handle.result()
        await self.follow(handle)
        return handle

    async def follow(self, handle: RunHandle) -> None:
        await follow_execution(self.client.temporal, self.dsn, handle.workflow_id)

    async def age(self, days: float) -> None:
        """Everything that is stored was stored, and happened, so many days before."""
        await self.database.execute(
            f"UPDATE noetl.payload SET used_at = used_at - interval '{days} days';"
            f"UPDATE noetl.history SET event_time = event_time - interval '{days} days';"
            f"UPDATE noetl.cursor SET updated_at = updated_at - interval '{days} days'"
        )

    async def expire(self, *ids: str) -> None:
        """Remove workflows from Temporal."""
        client = self.client.temporal
        for id_ in ids:
            execution = WorkflowExecution(workflow_id=id_)
            request = DeleteWorkflowExecutionRequest(namespace=client.namespace, workflow_execution=execution)
            await client.workflow_service.delete_workflow_execution(request)
        await until(lambda: self._has_none_of(ids))

    async def workflows_of(self, handle: RunHandle) -> list[str]:
        """The ids of a run's workflow and, after it, of its loops."""
        ids = {run.id async for run in self.client.temporal.list_workflows("")}
        return sorted(id_ for id_ in ids if id_.startswith(handle.workflow_id))

    async def part(self, handle: RunHandle) -> None:
        """Rename the run and its loops in the log, as if Temporal had removed them."""
        for table in ("history", "cursor"):
            update = f"UPDATE noetl.{table} SET workflow_id = 'gone/' || workflow_id WHERE starts_with(workflow_id, $1)"
            await self.database.execute(update, handle.workflow_id)

    async def _has_none_of(self, ids: Sequence[str]) -> bool:
        return not [run async for run in self.client.temporal.list_workflows("") if run.id in ids]

    async def prune(self, limit: timedelta = LIMIT, *, dry_run: bool = False) -> PruneResult:
        return await prune(self.client.temporal, self.dsn, limit, dry_run=dry_run)

    async def keys(self) -> set[str]:
        return {record["key"] for record in await self.database.fetch("SELECT key FROM noetl.payload")}

    async def owned_keys(self, handle: RunHandle) -> set[str]:
        query = "SELECT key FROM noetl.payload_owner WHERE execution_id = $1"
        return {record["key"] for record in await self.database.fetch(query, handle.execution_id)}


@asynccontextmanager
async def place(
    servers: Addresses, namespace: str, dsn: str, answer: Callable[[Request, ToolContext], Any]
) -> AsyncGenerator[Place]:
    tools = {"noop": FakeTool("noop", answer)}
    client = await NoetlClient.connect(servers.temporal, namespace=namespace, dsn=dsn, tools=tools)
    database = await asyncpg.connect(dsn)
    try:
        async with serving(client.temporal, tools, CredentialSource(environment={})):
            yield Place(client, dsn, database)
    finally:
        await database.close()
